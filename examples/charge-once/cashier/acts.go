package cashier

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A fate is what happens to the first process.
type fate int

const (
	spared       fate = iota
	doubled           // two clients come at once
	killed            // SIGKILL, at its point
	killedInCall      // SIGKILL, while the provider is at it
	paused            // SIGSTOP at its point, until another process has served the client
	cutAfter          // the connection breaks when the COMMIT has arrived, before its reply
	cutBefore         // the connection breaks before the COMMIT arrives
)

// An act is what happens to one order.
type act struct {
	title     string
	fate      fate
	at        string // the point
	mood      mood
	forgotten bool // the provider forgets its keys before the client comes back
	gone      bool // the client does not come back
}

var acts = []act{
	{title: "two clients at once", fate: doubled},
	{title: "two clients, and the provider is slow", fate: doubled, mood: slow},
	{title: "502 after the charge", mood: broken},
	{title: "no answer after the charge", mood: mute},
	{title: "no answer, and the request arrives later", mood: late},
	{title: "killed after the charge", fate: killed, at: charged},
	{title: "killed, and the keys forgotten", fate: killed, at: charged, forgotten: true},
	{title: "killed, and the request arrives later", fate: killed, at: charged, mood: late},
	{title: "killed during the charge", fate: killedInCall, mood: slow},
	{title: "killed before the commit", fate: killed, at: booked},
	{title: "killed before the client was told", fate: killed, at: told},
	{title: "killed after the charge, the client gone", fate: killed, at: charged, gone: true},
	{title: "killed during the charge, the client gone", fate: killedInCall, mood: slow, gone: true},
	{title: "stopped before the charge", fate: paused, at: asked},
	{title: "stopped after the charge", fate: paused, at: charged},
	{title: "the reply to COMMIT cut", fate: cutAfter},
	{title: "COMMIT cut", fate: cutBefore},
}

// order is the name of the act's order.
func (a act) order() string { return strings.ReplaceAll(a.title, " ", "-") }

// on tells whether the act can be played there: SQLite has no connection that could be cut.
func (a act) on(dsn string) bool { return dsn != "" || a.fate != cutAfter && a.fate != cutBefore }

// A stage is where acts are played: one way to pay, its data, and its provider.
type stage struct {
	way      string
	place    story.Place
	provider string
}

func (s stage) start(ctx context.Context, place story.Place, a act, at string) (*story.Worker, error) {
	return place.Start(ctx, "cashier", at, s.way, s.provider, string(a.mood), a.order())
}

// play returns what the clients were told that got an answer.
func (s stage) play(ctx context.Context, a act) (answers []string, err error) {
	place := s.place
	if a.fate == cutAfter || a.fate == cutBefore {
		p, err := wire.Start(place.URL, 0)
		if err != nil {
			return nil, err
		}
		defer func() { _ = p.Close() }()
		if commit := wire.Runs("commit"); a.fate == cutAfter {
			p.CutReplyTo(commit)
		} else {
			p.CutBefore(commit)
		}
		place.URL = p.URL()
	}
	first, err := s.start(ctx, place, a, a.at)
	if err != nil {
		return nil, err
	}
	defer first.Kill()
	if err := s.strike(ctx, a, first); err != nil {
		return nil, err
	}
	if a.forgotten {
		if err := ask(ctx, http.MethodPost, s.provider+"/forget", a.order()); err != nil {
			return nil, err
		}
	}
	if !a.gone {
		second, err := s.start(ctx, s.place, a, "")
		if err != nil {
			return nil, err
		}
		defer second.Kill()
		answer, err := second.Wait()
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	if a.fate == paused {
		err = first.Continue()
	}
	if err == nil && a.fate != killed && a.fate != killedInCall {
		var answer string
		answer, err = first.Wait()
		answers = append(answers, answer)
	}
	return answers, err
}

// strike lets the first process have its fate, as far as it has it before the client comes back.
func (s stage) strike(ctx context.Context, a act, first *story.Worker) error {
	switch a.fate {
	case killed, paused:
		if err := first.Stop(); err != nil {
			return err
		}
	case killedInCall:
		if err := ask(ctx, http.MethodGet, s.provider+"/arrived", a.order()); err != nil {
			return err
		}
	case spared, doubled, cutAfter, cutBefore:
		return nil
	}
	if a.fate != paused {
		first.Kill()
	}
	return nil
}

// ask tells the fake provider something about an order.
func ask(ctx context.Context, method, address, order string) error {
	r, err := http.NewRequestWithContext(ctx, method, address+"?order="+url.QueryEscape(order), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("the provider answered %d", res.StatusCode), err)
	}
	return nil
}
