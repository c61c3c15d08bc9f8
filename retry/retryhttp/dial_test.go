package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/retry"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// A connection that was refused has sent nothing: also a POST without a key may be tried again.
func TestR20DialsAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, status(201))
	dials := 0
	below := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials < 3 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer below.CloseIdleConnections()
	res, err := (&http.Client{Transport: retryhttp.New(below, quick(retryhttp.Options{}))}).Do(request(t, "POST", s.URL, "", "body"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if dials != 3 || len(s.requests()) != 1 {
		t.Errorf("%d dials, and %d requests", dials, len(s.requests()))
	}
}

// The hooks of a caller are called for each attempt of its request, and for no other's, and the proof of a dial holds beside them.
func TestTheHooksOfTheCaller(t *testing.T) {
	t.Parallel()
	s := serve(t, status(201))
	dials, asked, got := 0, 0, 0
	below := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials < 3 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer below.CloseIdleConnections()
	client := &http.Client{Transport: retryhttp.New(below, quick(retryhttp.Options{}))}
	traced := request(t, "POST", s.URL, "", "body")
	traced = traced.WithContext(httptrace.WithClientTrace(traced.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked++ }, GotConn: func(httptrace.GotConnInfo) { got++ },
	}))
	for _, r := range []*http.Request{traced, request(t, "POST", s.URL, "", "body"), request(t, "POST", s.URL, "", "body")} {
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if asked != 3 || got != 1 || len(s.requests()) != 3 {
		t.Errorf("the hooks were called %d and %d times, for %d requests", asked, got, len(s.requests()))
	}
}

// The proof is each attempt's own: one for which no connection was had says nothing of the next, whose transport tells nothing.
func TestAProofIsNotLeftOver(t *testing.T) {
	t.Parallel()
	sent := 0
	below := roundTripper(func(r *http.Request) (*http.Response, error) {
		if sent++; r.Method == "PATCH" {
			httptrace.ContextClientTrace(r.Context()).GetConn("localhost:80")
			return nil, errors.New("no connection")
		}
		return nil, io.ErrUnexpectedEOF
	})
	o := retryhttp.Options{Retry: retry.Options{Budget: retry.NewBudget(0, 1000)}}
	transport := retryhttp.New(below, quick(o))
	for range 100 { // what is used again is drawn by chance
		for method, want := range map[string]int{"PATCH": 3, "POST": 1} {
			sent = 0
			_, err := transport.RoundTrip(request(t, method, "http://localhost", "", "body")) //nolint:bodyclose // there is none
			if sent != want || (holdfast.OutcomeOf(err) == holdfast.NotApplied) != (method == "PATCH") {
				t.Fatalf("%s: sent %d times: %v, %v", method, sent, holdfast.OutcomeOf(err), err)
			}
		}
	}
}

// A transport that sent the request and then failed to dial for something else has proved nothing.
func TestAnErrorOfDialingIsNoProof(t *testing.T) {
	t.Parallel()
	sent := 0
	below := roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	})
	_, err := (&http.Client{Transport: retryhttp.New(below, quick(retryhttp.Options{}))}).Do(request(t, "POST", "http://localhost", "", "body"))
	if sent != 1 || holdfast.OutcomeOf(err) != holdfast.Unknown {
		t.Errorf("sent %d times: %v", sent, err)
	}
}

// A transport below that breaks its contract makes errors, and no panics.
func TestATransportThatReturnsNothing(t *testing.T) {
	t.Parallel()
	for name, below := range map[string]roundTripper{
		"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
		"both": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Request: r}, errors.New("and an error")
		},
	} {
		runs := 0
		transport := retryhttp.New(roundTripper(func(r *http.Request) (*http.Response, error) { runs++; return below(r) }), quick(retryhttp.Options{}))
		res, err := transport.RoundTrip(request(t, "POST", "http://localhost", "", "body")) //nolint:bodyclose // there is none
		if res != nil || err == nil || holdfast.OutcomeOf(err) != holdfast.Unknown || runs != 1 {
			t.Errorf("%s: %v, %v after %d attempts", name, res, err, runs)
		}
	}
	for _, code := range []int{http.StatusOK, http.StatusBadGateway} {
		o := retryhttp.Options{Retry: retry.Options{AttemptTimeout: time.Hour}}
		transport := retryhttp.New(roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: code}, nil }), quick(o))
		res, err := transport.RoundTrip(request(t, "GET", "http://localhost", "", ""))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res.Body); len(text) != 0 || err != nil || res.Body.Close() != nil {
			t.Errorf("a response without a body: %q, %v", text, err)
		}
	}
}

// A transport below that answers with a request of its own does not make a charge that may have happened one that did not.
func TestWhatIsKnownSurvivesTheTransportBelow(t *testing.T) {
	t.Parallel()
	own := request(t, "POST", "http://localhost", "", "")
	n := 0
	below := roundTripper(func(*http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return nil, io.ErrUnexpectedEOF // the charge may stand
		}
		return &http.Response{StatusCode: http.StatusPaymentRequired, Body: http.NoBody, Request: own}, nil
	})
	res, err := retryhttp.New(below, quick(retryhttp.Options{})).RoundTrip(request(t, "POST", "http://localhost", "k", "body"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if err := retryhttp.ErrorOf(res); holdfast.OutcomeOf(err) != holdfast.Unknown {
		t.Errorf("got %v: %v", holdfast.OutcomeOf(err), err)
	}
}
