package redisidem_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

// Who has announced to wait is told of the end, and nobody else is: a message comes with an answer and with a release, and no other.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	heard := f.client.Subscribe(ctx, f.Channel())
	defer func() { _ = heard.Close() }()
	_, err := heard.Receive(ctx)
	must(t, err)
	messages := heard.Channel()

	announced, silent, freed := claim("announced", time.Minute), claim("silent", time.Minute), claim("freed", time.Minute)
	a, s, r := begun(t, f, announced), begun(t, f, silent), begun(t, f, freed)
	yes(t)(f.Announce(ctx, a.ID))
	yes(t)(f.Announce(ctx, r.ID))
	yes(t)(f.Mark(ctx, termOf(a), nil))
	yes(t)(f.Complete(ctx, termOf(s), idem.Answer{State: idem.Completed}, time.Hour))
	yes(t)(f.Complete(ctx, termOf(a), idem.Answer{State: idem.Completed}, time.Hour))
	yes(t)(f.Release(ctx, termOf(r)))
	for _, want := range []idem.ID{a.ID, r.ID} { // the silent one would come before
		if got := <-messages; got.Payload != want.String() {
			t.Errorf("got %s, want %v", got.Payload, want)
		}
	}
	no(t)(f.Announce(ctx, a.ID))
	no(t)(f.Announce(ctx, r.ID))
	no(t)(f.Announce(ctx, idem.ID{}))
	// A new execution of the key has nobody who waits.
	next := begun(t, f, claim("freed", time.Minute))
	yes(t)(f.Release(ctx, termOf(next)))
	last := begun(t, f, claim("last", time.Minute))
	yes(t)(f.Announce(ctx, last.ID))
	yes(t)(f.Park(ctx, termOf(last), idem.Parking{State: idem.Pending}))
	yes(t)(f.Announce(ctx, last.ID))
	last, ok, err := f.Take(ctx, idem.Taking{Claim: claim("last", time.Minute), Was: last})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	yes(t)(f.Complete(ctx, termOf(last), idem.Answer{State: idem.Failed}, time.Hour))
	if got := <-messages; got.Payload != last.ID.String() {
		t.Errorf("got %s, want %v", got.Payload, last.ID)
	}
}

// A user who may not publish stores the answer all the same.
func TestAnswersOfAUserWhoMayNotPublish(t *testing.T) {
	t.Parallel()
	f, ctx := alone(t), t.Context()
	r := begun(t, f, claim("a", time.Minute))
	yes(t)(f.Announce(ctx, r.ID))
	must(t, f.client.Do(ctx, "acl", "setuser", "default", "resetchannels", "-publish").Err())
	yes(t)(f.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte("b")}, time.Hour))
	if got, err := f.Claim(ctx, claim("a", time.Minute)); err != nil || string(got.Answer.Body) != "b" {
		t.Errorf("%+v, %v", got, err)
	}
}
