package hook

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// Run runs the story: the same deliveries against two naive receivers and against ours.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "webhooks", Hazard: "duplicate webhook delivery", Backend: story.Backend(c.DSN)}
	payloads, err := load(c.Payloads)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	c.Logf("%d payloads, %d of them different; seed %d", len(payloads), len(unique(payloads)), c.Seed)

	check, err := try(ctx, c, checkThenAct, payloads)
	if err != nil {
		return r, err
	}
	mark, err := try(ctx, c, markFirst, payloads)
	if err != nil {
		return r, err
	}
	held, err := try(ctx, c, ours, payloads)
	if err != nil {
		return r, err
	}
	r.Operations = check.requests + mark.requests + held.requests
	r.Kills = check.kills + mark.kills + held.kills
	// Each of the two must break in its own way, so the one that did less counts.
	r.NaiveDamage = min(check.doubled, mark.lost)
	r.Damage = held.doubled + held.lost + held.strange
	r.Judge()
	return r, nil
}

// report is what became of the deliveries.
type report struct {
	requests, kills int
	doubled         int // entries of an event after its first
	lost            int // events without an entry
	strange         int // entries that are no event's
}

// try lets the provider loose on a receiver with an empty database, and counts what is left.
func try(ctx context.Context, c story.Config, s shop, payloads []Payload) (report, error) {
	var r report
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return r, err
	}
	defer place.Remove()
	if err := place.On(ctx, Migrate[*sql.Tx], Migrate[pgx.Tx]); err != nil {
		return r, err
	}
	deliveries := schedule(payloads, c.Seed)
	var p *provider
	err = story.Serve(ctx, c, place, s.server, len(deliveries), func(ctx context.Context, server *story.Server) error {
		p = &provider{server: server}
		if err := forge(ctx, p, payloads[0]); err != nil {
			return err
		}
		return p.deliverAll(ctx, deliveries)
	})
	if err != nil {
		return r, err
	}
	r.requests, r.kills = int(p.requests.Load()), p.server.Kills()
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { return r.count(ctx, db.Conn(), payloads) },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return r.count(ctx, db.Conn(), payloads) })
	c.Logf("%-16s %5d requests: %3d entries doubled, %3d events lost, killed %d times", s.name, r.requests, r.doubled, r.lost, r.kills)
	return r, err
}

// forge makes sure that a delivery with somebody else's signature neither counts nor uses up the ID.
func forge(ctx context.Context, p *provider, payload Payload) error {
	status, err := p.post(ctx, payload, Sign([]byte("another body")))
	if err == nil && status != http.StatusUnauthorized {
		err = fmt.Errorf("a forged delivery got %d", status)
	}
	return err
}

func unique(payloads []Payload) map[string]Payload {
	byID := map[string]Payload{}
	for _, p := range payloads {
		byID[p.Delivery] = p
	}
	return byID
}

func (r *report) count(ctx context.Context, conn tx.Conn, payloads []Payload) error {
	rows, err := conn.Query(ctx, "select delivery, event, size from entry")
	if err != nil {
		return err
	}
	defer rows.Close()
	events, entries := unique(payloads), map[string]int{}
	for rows.Next() {
		var id, event string
		var size int
		if err := rows.Scan(&id, &event, &size); err != nil {
			return err
		}
		if p := events[id]; p.Event != event || len(p.Body) != size {
			r.strange++
		}
		if entries[id]++; entries[id] > 1 {
			r.doubled++
		}
	}
	for id := range events {
		if entries[id] == 0 {
			r.lost++
		}
	}
	return rows.Err()
}
