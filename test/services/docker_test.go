package services

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPortsOfALocalEngineAreNotPublishedToOthers(t *testing.T) {
	t.Parallel()
	for host, want := range map[string][2]string{
		"localhost": {"127.0.0.1", "127.0.0.1"}, "127.0.0.1": {"127.0.0.1", "127.0.0.1"}, "172.17.0.1": {"172.17.0.1", "0.0.0.0"},
	} {
		if got, bind := publish(host); got != want[0] || bind.String() != want[1] {
			t.Errorf("%s: got %s at %s, want %v", host, got, bind, want)
		}
	}
}

func TestReadyMeansThatTheServerAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  Kind
		ready func(context.Context, string) error
	}{{Postgres, postgresReady}, {Redis, redisReady}} {
		s, err := c.kind.local(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := c.ready(t.Context(), s.URL()); err != nil {
			t.Errorf("%s runs: %v", c.kind.Name, err)
		}
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.ready(t.Context(), s.URL()); err == nil {
			t.Errorf("%s is killed, but ready", c.kind.Name)
		}
	}
}

func TestWaitingEndsWithTheAnswerOrTheContext(t *testing.T) {
	t.Parallel()
	alive := func(context.Context) error { return nil }
	tries := 0
	err := await(t.Context(), func(context.Context) error {
		tries++
		return unless(tries == 3)
	}, alive)
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = await(ctx, func(context.Context) error { return errNo }, alive)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNo) {
		t.Errorf("got %v", err)
	}
	ended := errors.New("ended")
	err = await(t.Context(), func(context.Context) error { return errNo }, func(context.Context) error { return ended })
	if !errors.Is(err, ended) {
		t.Errorf("got %v", err)
	}
}

// Where an engine and its images are at hand, the same is asked of containers as of local servers; elsewhere the reason is
// in the log, and TestWaysAreTakenInOrder holds for the way past them.
func TestContainersStartStopAndComeBack(t *testing.T) {
	t.Parallel()
	if err := dockerEngine(t.Context()); err != nil {
		t.Logf("not tried: %v", err)
		return
	}
	for _, k := range []Kind{Postgres, Redis} {
		s, err := k.container(t.Context())
		if err != nil {
			t.Logf("%s: not tried: %v", k.Name, err)
			continue
		}
		comesBack(t, k, s)
	}
}
