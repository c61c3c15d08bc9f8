package tx_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/tx"
)

// What else can happen to a COMMIT.
const (
	terminate = holdReply + 1 + iota // the server ends the session at about that moment
	cancel                           // the caller's context ends at about that moment
	damages                          // how many there are
)

var damageNames = [damages]string{"reply cut", "request cut", "reply held", "backend terminated", "context cancelled"}

// What is reported applied is there once, what is reported not applied is not there, and of what is unknown either is true:
// whatever happens to a COMMIT, at a random moment, and whether or not its outcome is looked up. Hooks run once for what is
// applied, and never otherwise.
func TestOutcomeCampaign(t *testing.T) {
	onPostgres(t, outcomeCampaign[pgx.Tx], outcomeCampaign[*sql.Tx])
}

func outcomeCampaign[T any](t *testing.T, open opener[T]) {
	for _, resolve := range []bool{false, true} {
		name := "typed error"
		if resolve {
			name = "resolved"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			c := &campaign{direct: postgres(t), resolve: resolve, reports: make([]report, history.Rounds(t, 25))}
			control := open(t, c.direct, 2)
			table(t, control)
			var workers sync.WaitGroup
			for w := range uint64(2) {
				workers.Go(func() { work(t, c, control, open, rand.New(rand.NewPCG(seed, w))) })
			}
			workers.Wait()
			judge(t, c, control, seed)
		})
	}
}

// A report is what a round of the campaign was told.
type report struct {
	damage   int
	outcome  holdfast.Outcome
	err      error
	hooks    int
	unknown  int // commits without a reply
	resolved int // of these
}

type campaign struct {
	direct  string // the URL
	resolve bool
	reports []report
	next    atomic.Int64
}

// work runs rounds until none are left, through a proxy of its own.
func work[T any](t *testing.T, c *campaign, control store[T], open opener[T], random *rand.Rand) {
	p, err := wire.Start(c.direct, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = p.Close() }()
	var armed atomic.Int64 // the damage to the next COMMIT, counted from 1
	commit := wire.Runs("commit")
	once := func(damage int64) wire.Match {
		return func(m wire.Message) bool { return commit(m) && armed.CompareAndSwap(damage+1, 0) }
	}
	p.CutReplyTo(once(cutReply)).Always()
	p.CutBefore(once(cutRequest)).Always()
	p.HoldReplyTo(once(holdReply)).Always()
	s := open(t, p.URL(), 3)
	for {
		n := int(c.next.Add(1)) - 1
		if n >= len(c.reports) {
			return
		}
		r := &c.reports[n]
		r.damage = n % damages
		round(t, c, r, s, control, n, &armed, random)
		armed.Store(0)
		if r.damage == holdReply {
			p.Break() // a driver that waits for ever keeps its connection
		}
	}
}

// round commits entry n while its damage happens.
func round[T any](t *testing.T, c *campaign, r *report, s, control store[T], n int, armed *atomic.Int64, random *rand.Rand) {
	ctx, cancelled := context.WithCancel(context.Background())
	defer cancelled()
	o := tx.Options{ResolveCommit: c.resolve, Attempts: 3}
	if r.damage == holdReply {
		o.CommitTimeout = 500 * time.Millisecond // it is waited for in full
	}
	db := s.With(o).Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		switch e.Kind {
		case tx.EventCommitUnknown:
			r.unknown++
		case tx.EventCommitResolved:
			r.resolved++
		}
	}))
	var late sync.WaitGroup
	after := func(fn func()) { // at about the moment of the commit
		wait := time.Duration(random.IntN(1500)) * time.Microsecond
		late.Go(func() { time.Sleep(wait); fn() })
	}
	r.err = db.Do(ctx, func(ctx context.Context, nt T) error {
		if err := tx.AfterCommit(ctx, func(context.Context) { r.hooks++ }); err != nil {
			return err
		}
		var pid int
		if err := s.Tx(nt).QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		insert := &tx.Stmt{SQL: insertEntry, Args: []any{n}}
		if random.IntN(2) == 0 {
			if err := s.Defer(ctx, nt, insert); err != nil {
				return err
			}
		} else if err := s.Tx(nt).Batch(ctx, insert); err != nil {
			return err
		}
		if tx.Attempt(ctx) > 1 && random.IntN(2) == 0 {
			return nil // it was damaged before
		}
		switch r.damage {
		case terminate:
			after(func() { _, _ = control.Conn().Exec(context.Background(), "select pg_terminate_backend($1)", pid) })
		case cancel:
			after(cancelled)
		default:
			armed.Store(int64(r.damage) + 1)
			if random.IntN(4) == 0 {
				after(cancelled)
			}
		}
		return nil
	})
	late.Wait()
	r.outcome = holdfast.OutcomeOf(r.err)
}

// judge compares what was reported with what is there, once no transaction is left that could still commit.
func judge[T any](t *testing.T, c *campaign, control store[T], seed uint64) {
	there := make([]int, len(c.reports))
	err := control.Do(t.Context(), func(ctx context.Context, nt T) error {
		if _, err := control.Tx(nt).Exec(ctx, "lock table entry in share mode"); err != nil {
			return err
		}
		rows, err := control.Tx(nt).Query(ctx, "select n from entry")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			there[n]++
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	type sum struct{ applied, not, unknownBefore, unknown, unknownThere int }
	var sums [damages]sum
	for n, r := range c.reports {
		s := &sums[r.damage]
		s.unknownBefore += r.unknown
		want, hooks := 0, 0
		switch r.outcome {
		case holdfast.Applied:
			s.applied++
			want, hooks = 1, 1
		case holdfast.NotApplied:
			s.not++
		default:
			s.unknown++
			s.unknownThere += there[n]
			want = min(there[n], 1)
		}
		if there[n] != want || r.hooks != hooks {
			t.Errorf("seed %d, round %d, %s: reported %v (%v) with %d hooks, and it is there %d times", seed, n, damageNames[r.damage], r.outcome, r.err, r.hooks, there[n])
		}
	}
	for d, s := range sums {
		t.Logf("seed %d: %-18s applied %d, not applied %d, replies lost %d, unknown in the end %d (%d of them applied)",
			seed, damageNames[d], s.applied, s.not, s.unknownBefore, s.unknown, s.unknownThere)
		switch cut := d <= holdReply; {
		case cut && s.unknownBefore == 0:
			t.Errorf("%s: no reply was lost: the campaign shows nothing", damageNames[d])
		case cut && !c.resolve && s.unknown != s.unknownBefore:
			t.Errorf("%s: %d replies were lost and %d outcomes are unknown", damageNames[d], s.unknownBefore, s.unknown)
		case cut && c.resolve && d != holdReply && s.unknown > 0: // one that is held leaves little time
			t.Errorf("%s: %d outcomes are unknown though the server could be asked", damageNames[d], s.unknown)
		}
	}
}
