package lease_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Histories of contenders for one lease, who write under it for as long as they believe to have it and longer, each checked
// against a fenced register: tokens rise, and nobody writes after another has acquired. HOLDFAST_ROUNDS makes the campaigns
// long, HOLDFAST_SEED repeats the choices of one.

func TestHistoriesPgx(t *testing.T) {
	t.Parallel()
	histories(t, pgxtx.New(openPool(t, testdb.Postgres(t))), nil)
}

// Connections break before what is asked, or before the reply.
func TestHistoriesPgxCut(t *testing.T) {
	t.Parallel()
	direct := testdb.Postgres(t)
	migrate(t, pgxtx.New(openPool(t, direct)))
	proxy, err := wire.Start(direct, 0)
	if err != nil {
		t.Fatal(err)
	}
	db := pgxtx.New(openPool(t, proxy.URL()))
	t.Cleanup(func() { _ = proxy.Close() })
	histories(t, db, proxy)
}

func TestHistoriesSQLite(t *testing.T) {
	t.Parallel()
	histories(t, openDB(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+sqliteParams, tx.SQLite), nil)
}

// The campaign finds out a guard that is none.
func TestBrokenGuardsAreCaught(t *testing.T) {
	t.Parallel()
	for name, weaken := range map[string]func(r *round[pgx.Tx]){
		"it looks before the transaction": func(r *round[pgx.Tx]) { r.looksBefore = true },
		"it locks nothing": func(r *round[pgx.Tx]) {
			r.guard = func(ctx context.Context, t tx.Tx, f lease.Fence) error {
				err := t.QueryRow(ctx, "select 1 from lease where name = $1 and token = $2 and nonce = $3", f.Name, f.Token, f.Nonce).Scan(new(int))
				if errors.Is(err, tx.ErrNoRows) {
					return lease.ErrFenced
				}
				return err
			}
		},
		// The constraint alone, and the lock alone, would do: each makes a take-over wait for guards.
		"a take-over locks as a renewal does, and the token is in no key": func(r *round[pgx.Tx]) {
			r.exec("alter table lease drop constraint if exists lease_name_token_key")
			r.store = lease.NewSQL(r.db.Wrapped(func(d tx.Driver[pgx.Tx]) tx.Driver[pgx.Tx] {
				return rewriting{d, strings.NewReplacer("for update", "for no key update")}
			}), lease.Names{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgxtx.New(openPool(t, testdb.Postgres(t)))
			migrate(t, db)
			for i := range 200 {
				r := newRound(t, db, nil, i)
				weaken(r)
				if r.run(mathrand.Uint64()) != "" {
					t.Logf("caught in round %d", i)
					return
				}
			}
			t.Error("200 rounds found nothing wrong with it")
		})
	}
}

// A rewriting driver changes what is asked outside of transactions.
type rewriting struct {
	tx.Driver[pgx.Tx]

	text *strings.Replacer
}

func (d rewriting) Conn() tx.Conn { return rewritingConn{d.Driver.Conn(), d.text} }

type rewritingConn struct {
	tx.Conn

	text *strings.Replacer
}

func (c rewritingConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	return c.Conn.QueryRow(ctx, c.text.Replace(query), args...)
}

func histories[T any](t *testing.T, db *tx.DB[T], proxy *wire.Proxy) {
	if proxy == nil {
		migrate(t, db)
	}
	seed, n, total := number("HOLDFAST_SEED", mathrand.Uint64()), number("HOLDFAST_ROUNDS", 25), map[sight]int{}
	t.Logf("seed %d, %d rounds", seed, n)
	for i := range int(n) { //nolint:gosec // a number of rounds
		r := newRound(t, db, proxy, i)
		if wrong := r.run(seed); wrong != "" {
			t.Fatalf("round %d of HOLDFAST_SEED=%d: %s", i, seed, wrong)
		}
		for _, call := range r.history {
			total[call.saw]++
		}
	}
	var text []string
	for saw, name := range sightNames {
		text = append(text, fmt.Sprintf("%d %s", total[sight(saw)], name))
	}
	t.Log(strings.Join(text, ", "))
	if total[wrote] == 0 || total[fenced] == 0 {
		t.Error("nobody has written, or nobody was fenced: the campaign shows nothing")
	}
}

func number(env string, usual uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(env), 10, 64)
	if err != nil {
		return usual
	}
	return n
}

// A round is one history.
type round[T any] struct {
	testing.TB
	db          *tx.DB[T]
	proxy       *wire.Proxy // nil without
	name        string
	store       *lease.SQL[T]
	started     time.Time
	guard       func(ctx context.Context, t tx.Tx, f lease.Fence) error
	looksBefore bool // and not in the transaction

	mu      sync.Mutex // guards history
	history []*record
}

func newRound[T any](t testing.TB, db *tx.DB[T], proxy *wire.Proxy, i int) *round[T] {
	t.Helper()
	return &round[T]{
		TB: t, db: db, proxy: proxy, name: fmt.Sprint("round ", i), store: lease.NewSQL(db, lease.Names{}), started: time.Now(),
		guard: func(ctx context.Context, t tx.Tx, f lease.Fence) error { return f.Guard(ctx, t) },
	}
}

const (
	contenders = 8
	terms      = 5 // of each
)

func (r *round[T]) run(seed uint64) (wrong string) {
	r.exec("insert into register (name, value) values ($1, '')", r.name)
	var wg sync.WaitGroup
	for who := range contenders {
		random := mathrand.New(mathrand.NewPCG(seed, uint64(who))) //nolint:gosec // a campaign needs no secret
		wg.Go(func() {
			for i := range terms {
				r.term(who, i, random)
			}
		})
	}
	wg.Wait()
	return check(r.history)
}

func (r *round[T]) exec(query string, args ...any) {
	r.Helper()
	for tries := 0; ; tries++ {
		_, err := r.db.Conn().Exec(context.Background(), query, args...)
		if err == nil {
			return
		}
		if tries == 20 {
			r.Fatalf("%s: %v", query, err)
		}
	}
}

// term is one acquisition with what is done under it. It lasts some milliseconds, and often less than the work.
func (r *round[T]) term(who, n int, random *mathrand.Rand) {
	micros := func(most int) time.Duration { return time.Duration(random.IntN(most)) * time.Microsecond }
	time.Sleep(micros(5000))
	if r.proxy != nil && random.IntN(3) == 0 {
		cut := []func(wire.Match) *wire.Hook{r.proxy.CutReplyTo, r.proxy.CutBefore}[random.IntN(2)]
		statement := []string{"with own", "commit", `update "lease"`, "update register"}[random.IntN(4)]
		defer cut(wire.Runs(statement)).Disarm()
	}
	claim := lease.Claim{Name: r.name, Nonce: rand.Text(), TTL: time.Millisecond + micros(15000)}
	var g lease.Grant
	r.record(&record{who: who}, func(call *record) (err error) {
		g, err = r.store.TryAcquire(context.Background(), claim)
		call.saw, call.token = unaccomplished, g.Token
		switch {
		case err != nil && unknown(err):
			call.saw = maybeAcquired
		case g.Held:
			call.saw = acquired
		}
		return err
	})
	if !g.Held {
		return
	}
	term := lease.Term{Name: r.name, Token: g.Token, Nonce: claim.Nonce, TTL: claim.TTL}
	for i := range 1 + random.IntN(4) {
		switch random.IntN(8) {
		case 0:
			r.read(who)
		case 1:
			r.renew(who, term)
		default:
			level := tx.DefaultIsolation
			if r.db.Dialect().Capabilities.IsolationLevels {
				level = []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable}[random.IntN(3)]
			}
			r.write(who, r.store.Fence(g), fmt.Sprintf("%d.%d.%d", who, n, i), level, random.IntN(2) == 0, micros(6000))
		}
		time.Sleep(micros(4000))
	}
	if random.IntN(2) == 0 {
		r.release(who, term)
	}
}

// write is a guarded transaction, with the guard first or last.
func (r *round[T]) write(who int, f lease.Fence, value string, level tx.Isolation, first bool, lingers time.Duration) {
	r.record(&record{who: who, token: f.Token, value: value}, func(call *record) error {
		db := r.db.With(tx.Options{Isolation: level, Attempts: 50})
		guard := func(ctx context.Context, t T) error { return r.guard(ctx, db.Tx(t), f) }
		if r.looksBefore {
			if err := db.Do(context.Background(), guard); err != nil {
				call.saw = fenced
				return err
			}
			time.Sleep(lingers)
			guard = func(context.Context, T) error { return nil }
		}
		err := db.Do(context.Background(), func(ctx context.Context, t T) error {
			set := func(ctx context.Context, t T) error {
				_, err := db.Tx(t).Exec(ctx, "update register set value = $2 where name = $1", r.name, value)
				return err
			}
			steps := []func(context.Context, T) error{guard, set}
			if !first {
				steps = []func(context.Context, T) error{set, guard}
			}
			for _, step := range steps {
				if err := step(ctx, t); err != nil {
					return err
				}
				time.Sleep(lingers / 2)
			}
			return nil
		})
		switch {
		case err == nil:
			call.saw = wrote
		case errors.Is(err, lease.ErrFenced):
			call.saw = fenced
			return nil
		case unknown(err):
			call.saw = maybeWrote
		default:
			call.saw = unaccomplished
		}
		return err
	})
}

func (r *round[T]) read(who int) {
	r.record(&record{who: who, saw: read}, func(call *record) error {
		err := r.db.Conn().QueryRow(context.Background(), "select value from register where name = $1", r.name).Scan(&call.value)
		if err != nil {
			call.saw = unaccomplished
		}
		return err
	})
}

func (r *round[T]) renew(who int, t lease.Term) {
	r.record(&record{who: who, token: t.Token, saw: lost}, func(call *record) error {
		renewals, err := r.store.Renew(context.Background(), []lease.Term{t})
		switch {
		case err != nil:
			call.saw = unaccomplished // and no more than that the end may have moved
		case renewals[0].Held:
			call.saw = renewed
		}
		return err
	})
}

func (r *round[T]) release(who int, t lease.Term) {
	r.record(&record{who: who, token: t.Token, saw: lost}, func(call *record) error {
		held, err := r.store.Release(context.Background(), t)
		switch {
		case err != nil && unknown(err):
			call.saw = maybeReleased
		case err != nil:
			call.saw = unaccomplished
		case held:
			call.saw = released
		}
		return err
	})
}

// record makes a call, and notes what came of it. Without a proxy that breaks something no call fails, but for one that lost
// too many races.
func (r *round[T]) record(call *record, do func(*record) error) {
	call.from = time.Since(r.started)
	err := do(call)
	call.to = time.Since(r.started)
	if err != nil && r.proxy == nil && !errors.Is(err, lease.ErrFenced) && tx.Classify(err) != tx.Retryable {
		r.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, call)
}

func unknown(err error) bool { return holdfast.OutcomeOf(err) == holdfast.Unknown }

func openPool(t testing.TB, address string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = contenders
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// migrate makes the table of leases, and what they guard.
func migrate[T any](t testing.TB, db *tx.DB[T]) {
	t.Helper()
	if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Conn().Exec(t.Context(), "create table register (name text primary key, value text not null)"); err != nil {
		t.Fatal(err)
	}
}
