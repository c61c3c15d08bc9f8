package retryhttp_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

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
