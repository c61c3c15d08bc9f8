package redislease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

func TestWhatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	for name, s := range map[string]*redislease.Store{
		"no client":     redislease.New(nil, nil),
		"nil client":    redislease.New((*redis.Client)(nil), nil),
		"nil cluster":   redislease.New((*redis.ClusterClient)(nil), nil),
		"brace":         redislease.New(f.client, &redislease.Options{Prefix: "a{b"}),
		"closing brace": redislease.New(f.client, &redislease.Options{Prefix: "a}b"}),
		"retention":     redislease.New(f.client, &redislease.Options{Retention: time.Millisecond}),
		"past":          redislease.New(f.client, &redislease.Options{Retention: -time.Hour}),
	} {
		_, acquire := s.TryAcquire(ctx, claim("a", "n", time.Minute))
		_, renew := s.Renew(ctx, []lease.Term{{Name: "a"}})
		_, none := s.Renew(ctx, nil)
		_, release := s.Release(ctx, lease.Term{Name: "a"})
		_, servers := s.Servers(ctx)
		_, list := s.List(ctx, lease.Page{Limit: 1})
		_, look := s.Look(ctx, "a")
		_, resign := s.RequestResign(ctx, "a")
		_, evict := s.Evict(ctx, "a")
		_, turn := s.TryInTurn(ctx, claim("a", "n", time.Minute), lease.Waiter{ID: "w", TTL: time.Minute})
		for _, err := range []error{
			acquire, renew, none, release, servers, s.Check(ctx), list, look, resign, evict, turn, s.Leave(ctx, "a", "w"),
		} {
			if !errors.Is(err, redislease.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Nonces are told apart whatever they are.
func TestNonces(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	for i, nonce := range []string{"a", "a b", "a ", " ", "", "1:a", "a 1:b "} {
		name := fmt.Sprint(i)
		term := take(t, f, claim(name, nonce, time.Minute))
		for _, other := range []string{"a b c", "b", "  ", "1:a ", "a 1:b"} {
			if g, err := f.TryAcquire(t.Context(), claim(name, other, time.Minute)); err != nil || g.Held || g.Holder != "holder "+nonce {
				t.Errorf("%q got the lease of %q: %+v, %v", other, nonce, g, err)
			}
			wrong := term
			wrong.Nonce = other
			renewed(t, f, false, wrong)
			released(t, f, false, wrong)
		}
		renewed(t, f, true, term)
		released(t, f, true, term)
	}
}

// What a holder says is told as it was said.
func TestHoldersAndMeta(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	for i, text := range []string{"", " ", "1 2 3", "-", "\n", "\x00\xff", "{}", "日本"} {
		c := lease.Claim{Name: fmt.Sprint(text, i), Nonce: "n", TTL: time.Minute, Holder: text, Meta: text + " meta"}
		take(t, f, c)
		if g, err := f.TryAcquire(t.Context(), claim(c.Name, "m", time.Minute)); err != nil || g.Holder != text || g.Meta != text+" meta" {
			t.Errorf("%q is told as %q and %q, %v", text, g.Holder, g.Meta, err)
		}
	}
}

// Keys of others are left alone, and told.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	must(t, f.client.LPush(ctx, f.KeyOf("list"), "x").Err())
	must(t, f.client.Set(ctx, f.KeyOf("text"), "rubbish", 0).Err())
	for _, name := range []string{"list", "text"} {
		before := f.client.Dump(ctx, f.KeyOf(name)).Val()
		if g, err := f.TryAcquire(ctx, claim(name, "n", time.Minute)); err == nil || g.Held {
			t.Errorf("%+v, %v", g, err)
		}
		if renewals, err := f.Renew(ctx, []lease.Term{{Name: name, Token: 1, Nonce: "n", TTL: time.Minute}}); err != nil || renewals[0].Held {
			t.Errorf("%+v, %v", renewals, err)
		}
		if held, err := f.Release(ctx, lease.Term{Name: name, Nonce: "n"}); held || name == "list" && err == nil {
			t.Errorf("%v, %v", held, err)
		}
		_, resign := f.RequestResign(ctx, name)
		_, evict := f.Evict(ctx, name)
		_, look := f.Look(ctx, name)
		_, turn := f.TryInTurn(ctx, claim(name, "n", time.Minute), lease.Waiter{ID: "w", TTL: time.Minute})
		for _, err := range []error{resign, evict, look, turn} {
			if err == nil {
				t.Errorf("%s is taken for a lease: %v, %v, %v, %v", name, resign, evict, look, turn)
			}
		}
		if page, err := f.List(ctx, lease.Page{Limit: 100}); err != nil || len(page) != 0 {
			t.Errorf("%s is listed: %+v, %v", name, page, err)
		}
		if after := f.client.Dump(ctx, f.KeyOf(name)).Val(); after != before || f.client.PTTL(ctx, f.KeyOf(name)).Val() != -1 {
			t.Errorf("%s was changed", name)
		}
	}
}
