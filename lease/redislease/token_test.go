package redislease_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

// stored is what Redis keeps of a lease: see KeyOf.
func (f *fixture) stored(t *testing.T, name string) (token, until int64) {
	t.Helper()
	text, err := f.client.Get(t.Context(), f.KeyOf(name)).Result()
	must(t, err)
	fields := strings.Fields(text)
	if len(fields[0]) != 16 || len(fields[1]) != 16 || len(fields[2]) != 16 {
		t.Fatalf("stored is %q", text)
	}
	token, err = strconv.ParseInt(fields[0], 10, 64)
	must(t, err)
	until, err = strconv.ParseInt(fields[1], 10, 64)
	must(t, err)
	return token, until
}

// setToken has a lease say that its token was given by a server whose clock was ahead.
func (f *fixture) setToken(t *testing.T, name string, token int64) {
	t.Helper()
	must(t, f.client.SetRange(t.Context(), f.KeyOf(name), 0, strconv.FormatInt(token, 10)).Err())
}

// B31: a number of 16 digits is not what tostring makes of it.
func TestTokensAreTheServersMicrosecondsToTheLastDigit(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	seen := map[int64]bool{}
	for i := range 200 {
		before, err := f.client.Time(t.Context()).Result()
		must(t, err)
		term := take(t, f, claim(fmt.Sprint("a", i), "n", time.Minute))
		after, err := f.client.Time(t.Context()).Result()
		must(t, err)
		if term.Token < before.UnixMicro() || term.Token > after.UnixMicro()+200 {
			t.Fatalf("token %d is not between %d and %d", term.Token, before.UnixMicro(), after.UnixMicro())
		}
		token, until := f.stored(t, term.Name)
		if token != term.Token {
			t.Fatalf("the token is %d, and stored as %d", term.Token, token)
		}
		if until < before.Add(time.Minute).UnixMicro() || until > after.Add(time.Minute).UnixMicro() {
			t.Fatalf("the lease lasts until %d, the clock says %d", until, before.UnixMicro())
		}
		renewed(t, f, true, term)
		later, err := f.client.Time(t.Context()).Result()
		must(t, err)
		if _, until := f.stored(t, term.Name); until < after.Add(time.Minute).UnixMicro() || until > later.Add(time.Minute).UnixMicro() {
			t.Fatalf("after its renewal the lease lasts until %d, the clock says %d", until, after.UnixMicro())
		}
		seen[term.Token] = true
	}
	if len(seen) != 200 {
		t.Errorf("200 leases have %d tokens", len(seen))
	}
}

// B27, and a clock that is set back: the last token counts, and stays after a release.
func TestTokensRiseWhenTheClockIsBehind(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	last := take(t, f, claim("a", "n", time.Minute))
	ahead := time.Now().Add(time.Hour).UnixMicro()
	f.setToken(t, "a", ahead)
	last.Token = ahead
	for i := range 20 {
		renewed(t, f, true, last)
		released(t, f, true, last)
		other := redislease.New(f.client, &redislease.Options{Prefix: f.prefix}) // another process, which has seen no token
		next := take(t, other, claim("a", fmt.Sprint(i), time.Minute))
		if next.Token != last.Token+1 {
			t.Fatalf("token %d came after %d", next.Token, last.Token)
		}
		last = next
	}
}

// A server that has lost everything, and whose clock is behind, is told by who has seen the last token.
func TestTokensRiseAfterAFlushAndAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	last := take(t, f, claim("a", "n", time.Minute))
	last.Token = time.Now().Add(time.Hour).UnixMicro()
	f.setToken(t, "a", last.Token)
	if g, err := f.TryAcquire(t.Context(), claim("a", "m", time.Minute)); err != nil || g.Held || g.Token != last.Token {
		t.Fatalf("%+v, %v", g, err)
	}
	must(t, f.client.Del(t.Context(), f.KeyOf("a")).Err())
	renewed(t, f, false, last)
	next := take(t, f, claim("a", "o", time.Minute))
	if next.Token != last.Token+1 {
		t.Errorf("token %d came after %d", next.Token, last.Token)
	}
	released(t, f, false, last)
	renewed(t, f, true, next)
}

// FLUSHALL: two hold it until the first is told, and the tokens are in order.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	f := failing(t)
	h, err := lease.New(f, &lease.Options{TTL: time.Second}).Acquire(t.Context(), "a")
	must(t, err)
	must(t, f.client.FlushAll(t.Context()).Err())
	next := take(t, redislease.New(f.client, nil), claim("a", "next", time.Minute))
	if next.Token <= h.Fence().Token {
		t.Errorf("token %d came after %d", next.Token, h.Fence().Token)
	}
	<-h.Context().Done()
	if got, err := h.Release(t.Context()); got != lease.AlreadyLost || err != nil {
		t.Errorf("the release came to %d, %v", got, err)
	}
	renewed(t, f, true, next)
}

// The key goes some time after its last use, and no sooner than the lease.
func TestRetention(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	s := redislease.New(f.client, &redislease.Options{Prefix: f.prefix, Retention: time.Second})
	left := func() time.Duration {
		d, err := f.client.PTTL(t.Context(), f.KeyOf("a")).Result()
		must(t, err)
		return d
	}
	c := claim("a", "n", time.Minute)
	c.AtLeast = time.Hour
	term := take(t, s, c)
	if d := left(); d <= time.Hour || d > time.Hour+time.Second {
		t.Errorf("the key stays for %v", d)
	}
	term.TTL = 2 * time.Hour
	renewed(t, s, true, term)
	if d := left(); d <= 2*time.Hour || d > 2*time.Hour+time.Second {
		t.Errorf("the key stays for %v", d)
	}
}
