package hook

import (
	"context"
	"errors"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	crashes    = 3
	serverName = "webhooks"
)

// ledger is the work: it writes an entry, but fails the first time for some events, as handlers do.
func ledger() Handler {
	var mu sync.Mutex
	failed := map[string]bool{}
	return func(ctx context.Context, conn tx.Conn, id, event string, body []byte) error {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id))
		mu.Lock()
		fail := h.Sum32()%5 == 0 && !failed[id]
		failed[id] = true
		mu.Unlock()
		if fail {
			return errors.New("the ledger is not available")
		}
		_, err := conn.Exec(ctx, "insert into entry (delivery, event, size) values ($1, $2, $3)", id, event, len(body))
		return err
	}
}

func init() {
	story.RegisterServer(serverName, func(ctx context.Context, p story.Place) (http.Handler, func(), error) {
		if p.IsPostgres() {
			db, closeDB, err := p.OpenPostgres(ctx)
			if err != nil {
				return nil, nil, err
			}
			return Ours(db, ledger()), closeDB, nil
		}
		db, closeDB, err := p.OpenSQLite()
		if err != nil {
			return nil, nil, err
		}
		return Ours(db, ledger()), closeDB, nil
	})
}

// Run runs the story: the same deliveries against two naive receivers and against ours.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return story.Result{}, err
	}
	defer place.Remove()
	if place.IsPostgres() {
		db, closeDB, err := place.OpenPostgres(ctx)
		if err != nil {
			return story.Result{}, err
		}
		defer closeDB()
		return run(ctx, c, place, db)
	}
	db, closeDB, err := place.OpenSQLite()
	if err != nil {
		return story.Result{}, err
	}
	defer closeDB()
	return run(ctx, c, place, db)
}

func run[T any](ctx context.Context, c story.Config, place story.Place, db *tx.DB[T]) (story.Result, error) {
	r := story.Result{Story: "webhooks", Hazard: "duplicate webhook delivery", Backend: place.Backend()}
	if c.Crash {
		r.Story, r.Hazard = "webhooks-crash", "SIGKILL in the middle of deliveries"
	}
	payloads, err := load(c.Payloads)
	if err != nil {
		return r, err
	}
	if err := Migrate(ctx, db); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	c.Logf("seed %d", c.Seed)

	naive := []struct {
		name  string
		serve func(*tx.DB[T], Handler) http.Handler
	}{{"check, then act", CheckThenAct[T]}, {"mark, then act", MarkFirst[T]}}
	r.NaiveDamage = -1
	for _, n := range naive {
		damage, requests, err := deliver(ctx, c, db, n.name, payloads, n.serve(db, ledger()), nil)
		if err != nil {
			return r, err
		}
		// Each of the two must break; the smaller damage counts.
		if r.NaiveDamage < 0 || damage < r.NaiveDamage {
			r.NaiveDamage = damage
		}
		r.Operations += requests
	}
	var process *story.Process
	if c.Crash {
		if process, err = story.StartProcess(ctx, serverName, place); err != nil {
			return r, err
		}
		defer func() { process.Kill() }()
	}
	damage, requests, err := deliver(ctx, c, db, "holdfast", payloads, Ours(db, ledger()), process)
	r.Damage = damage
	r.Operations += requests
	r.Judge()
	return r, err
}

// deliver lets the provider loose on a receiver and counts the entries: doubled and lost.
func deliver[T any](ctx context.Context, c story.Config, db *tx.DB[T], name string, payloads []Payload, h http.Handler, process *story.Process) (damage, requests int, err error) {
	for _, table := range []string{"entry", "naive_mark"} {
		if _, err := db.Conn().Exec(ctx, "delete from "+table); err != nil {
			return 0, 0, err
		}
	}
	p := &provider{}
	if process != nil {
		p.base = process.URL()
	} else {
		server := httptest.NewServer(h)
		defer server.Close()
		p.base = server.URL
	}
	if status, err := p.post(ctx, payloads[0], Sign([]byte("another body"))); err != nil || status != http.StatusUnauthorized {
		return 0, 0, errors.Join(errors.New("a forged delivery was taken"), err)
	}
	err = p.deliverAll(ctx, payloads, c.Seed, func(sent, total int) error {
		if process != nil && sent > 0 && sent%(total/(crashes+1)) == 0 && process.Kills() < crashes {
			return process.Crash(ctx)
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	doubled, lost, err := count(ctx, db, payloads)
	requests = int(p.requests.Load())
	kills := 0
	if process != nil {
		kills = process.Kills()
	}
	c.Logf("%-16s %5d requests: %3d entries doubled, %3d events lost, receiver killed %d times", name, requests, doubled, lost, kills)
	return doubled + lost, requests, err
}

func count[T any](ctx context.Context, db *tx.DB[T], payloads []Payload) (doubled, lost int, err error) {
	rows, err := db.Conn().Query(ctx, "select delivery, count(*) from entry group by delivery")
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	entries := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return 0, 0, err
		}
		entries[id] = n
		doubled += n - 1
	}
	unique := map[string]bool{}
	for _, p := range payloads {
		unique[p.Delivery] = true
	}
	for id := range unique {
		if entries[id] == 0 {
			lost++
		}
	}
	return doubled, lost, rows.Err()
}
