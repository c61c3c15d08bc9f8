package lease

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

// waiterSuffix comes after the name of the table of leases, in that of those who wait in turn.
const waiterSuffix = "_waiter"

// DefaultTable is the table of leases.
const DefaultTable = "lease"

// Names are the names of the tables in one database. The zero value means the defaults.
type Names struct {
	// Schema is the schema of the table. Default: the first of the search path.
	Schema string
	// Table is its name, of 40 bytes at most. Default: "lease".
	Table string
	// HighWater is the table of [HighWater], of 40 bytes at most. Default: "lease_high".
	HighWater string
	// Slots is the table of [Job], of 40 bytes at most. Default: "lease_slot".
	Slots string
}

func (n Names) check(d *tx.Dialect) error {
	if n.Schema != "" && !d.Capabilities.Schemas {
		return &InputError{Name: "Names.Schema", Reason: "is set, and " + d.Name + " has no schemas: leave it empty"}
	}
	for _, name := range []struct {
		field, value string
		longest      int
	}{{"Names.Schema", n.Schema, 63}, {"Names.Table", n.Table, 40}, {"Names.HighWater", n.HighWater, 40}, {"Names.Slots", n.Slots, 40}} {
		if err := tx.CheckName(name.value, name.longest); err != nil && name.value != "" {
			return fmt.Errorf("lease: %s: %w", name.field, err)
		}
	}
	return nil
}

// SQL keeps leases in a table of a database, and is safe for concurrent use. Expiry is judged by the server's clock.
type SQL[T any] struct {
	db    *tx.DB[T]
	names Names
	sql   texts
	err   error
}

// NewSQL returns the store in the table that [Migrate] makes. Names that cannot be used are reported by every method.
func NewSQL[T any](db *tx.DB[T], names Names) *SQL[T] {
	names.Table = cmp.Or(names.Table, DefaultTable)
	return &SQL[T]{db: db, names: names, sql: newTexts(db.Dialect(), names), err: names.check(db.Dialect())}
}

//go:embed migrations
var migrations embed.FS

// Migrations holds the schema, a folder for each dialect. [Migrate] applies it; goose, golang-migrate, atlas and psql take the
// same files.
var Migrations, _ = fs.Sub(migrations, "migrations") // which fails only for a path that is none

// Migrate creates the tables, or brings them up to date. It may run at every start, in every process at once. See [tx.Migrate]
// for the errors.
func Migrate[T any](ctx context.Context, db *tx.DB[T], names Names) error {
	table := cmp.Or(names.Table, DefaultTable)
	return tx.Migrate(ctx, db, tx.Migrations{
		Set: "lease", FS: Migrations, Schema: names.Schema,
		Rename: map[string]string{
			DefaultTable: table, DefaultTable + "_token": table + "_token", DefaultTable + "_deleted": table + "_deleted",
			DefaultTable + waiterSuffix: table + waiterSuffix,
			DefaultHighWater:            cmp.Or(names.HighWater, DefaultHighWater), DefaultSlots: cmp.Or(names.Slots, DefaultSlots),
		},
	})
}

// Check reports, for the start of a service, whether the table is there with its columns and the database takes writes. See
// [tx.CheckTables] for the errors.
func (s *SQL[T]) Check(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	columns := []string{"name", "token", "nonce", "holder", "meta", "acquired_at", "expires_at", "keep_until", "resign"}
	if s.db.Dialect().Capabilities.Notifications {
		columns = append(columns, "awaited_until")
	}
	return tx.CheckTables(ctx, s.db, tx.Table{Schema: s.names.Schema, Name: s.names.Table, Columns: columns}, tx.Table{Schema: s.names.Schema, Name: s.names.Table + waiterSuffix, Columns: []string{"name", "waiter", "ticket", "expires_at"}})
}

// Capabilities implements [Store]. The token survives a failover if the acquisition reached the standby.
func (s *SQL[T]) Capabilities() Capabilities {
	return Capabilities{
		Fencing: true, ExactGuard: true, TokenSurvivesDeletion: Yes, TokenSurvivesFailover: IfSynchronous,
		HoldSurvivesFailover: IfSynchronous, RenewsExpired: true, Lists: true, Resigns: true, Evicts: true, Queues: true, Chooses: true,
	}
}

// Fence returns the fence of g, which guards transactions on the store's database.
func (s *SQL[T]) Fence(g Grant) Fence {
	return Fence{Name: g.Name, Token: g.Token, Nonce: g.Nonce, guard: s.sql.guard, old: s.sql.old, dialect: s.db.Dialect()}
}

// contended is how often a request is made again that lost a race with another, which at a default isolation level above READ
// COMMITTED is a serialization failure.
const contended = 5

// again runs ask, and again after an error that a repetition can cure.
func (s *SQL[T]) again(ctx context.Context, ask func() error) error {
	for attempt := 1; ; attempt++ {
		err := ask()
		if err == nil {
			return nil
		}
		class := s.db.Classify(err)
		if class != tx.Retryable || attempt == contended {
			return outcome(class, err)
		}
		if cause := sleep(ctx, jitter.Full(time.Millisecond, 50*time.Millisecond, attempt)); cause != nil {
			return fmt.Errorf("%w: %w", outcome(class, err), cause)
		}
	}
}

// outcome makes an error say that nothing was done, if it proves that: the server said so, or was never reached.
func outcome(class tx.Class, err error) error {
	var state interface{ SQLState() string }
	if class == tx.Lost || class == tx.Permanent && !errors.As(err, &state) {
		return err
	}
	return &tx.AbortError{Err: err, Class: class, Attempts: 1}
}

// TryAcquire implements [Store]: one statement, one round trip. A try that fails writes nothing.
func (s *SQL[T]) TryAcquire(ctx context.Context, c Claim) (g Grant, err error) {
	if s.err != nil {
		return Grant{}, s.err
	}
	err = s.again(ctx, func() error {
		g = Grant{Name: c.Name}
		var remaining int64
		row := s.db.Conn().QueryRow(ctx, s.sql.acquire,
			c.Name, c.Holder, c.Meta, c.Nonce, c.TTL.Microseconds(), c.AtLeast.Microseconds())
		err := row.Scan(&g.Held, &g.Token, &g.Holder, &g.Meta, &remaining)
		g.Remaining = time.Duration(remaining) * time.Microsecond
		if errors.Is(err, tx.ErrNoRows) {
			return s.describe(ctx, &g)
		}
		return err
	})
	if s.db.Classify(err) == tx.Retryable && s.describe(ctx, &g) == nil { // on SQLite, of a transaction that the lease guards
		return g, nil
	}
	if g.Held {
		g.Nonce, g.Holder, g.Meta, g.Remaining = c.Nonce, "", "", 0
	}
	return g, err
}

// describe looks who has the lease, where the statement that tried could not tell: on SQLite, and when somebody took it at the
// same moment.
func (s *SQL[T]) describe(ctx context.Context, g *Grant) error {
	return look(ctx, s.db.Conn(), s.sql.look, g)
}

func look(ctx context.Context, conn tx.Conn, query string, g *Grant) error {
	var remaining int64
	err := conn.QueryRow(ctx, query, g.Name).Scan(&g.Token, &g.Holder, &g.Meta, &remaining)
	g.Remaining = time.Duration(remaining) * time.Microsecond
	if errors.Is(err, tx.ErrNoRows) {
		return nil
	}
	return err
}

// request is a term as the statements read it.
type request struct {
	Name  string `json:"name"`
	Token int64  `json:"token"`
	Nonce string `json:"nonce"`
	TTL   int64  `json:"ttl"` // in microseconds
}

// Renew implements [Store]: one statement for all.
func (s *SQL[T]) Renew(ctx context.Context, terms []Term) (renewals []Renewal, err error) {
	if s.err != nil {
		return nil, s.err
	}
	requests, at := make([]request, len(terms)), make(map[string]int, len(terms))
	for i, t := range terms {
		requests[i], at[t.Nonce] = request{t.Name, t.Token, t.Nonce, t.TTL.Microseconds()}, i
	}
	text, err := json.Marshal(requests)
	if err != nil {
		return nil, err
	}
	err = s.again(ctx, func() error {
		renewals = make([]Renewal, len(terms))
		rows, err := s.db.Conn().Query(ctx, s.sql.renew, string(text))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var nonce string
			var resign bool
			if err := rows.Scan(&nonce, &resign); err != nil {
				return err
			}
			renewals[at[nonce]] = Renewal{Held: true, Resign: resign}
		}
		return rows.Err()
	})
	return renewals, err
}

// Release implements [Store]. The row stays, so that tokens go on rising.
func (s *SQL[T]) Release(ctx context.Context, t Term) (held bool, err error) {
	if s.err != nil {
		return false, s.err
	}
	err = s.again(ctx, func() error {
		n, err := s.db.Conn().Exec(ctx, s.sql.release, t.Name, t.Nonce)
		held = n == 1
		return err
	})
	return held, err
}

// texts are the statements on one table.
type texts struct {
	acquire, look, renew, release, guard, old string
	list, resign, cut, renumber               string
	inTurn, gone, place, ahead, leave, await  string
	find, choose, soonest                     string
}

func newTexts(d *tx.Dialect, names Names) texts {
	s := texts{
		acquirePostgres, lookPostgres, renewPostgres, releasePostgres, guardPostgres, oldPostgres,
		listPostgres, resignSQL, cutPostgres, renumberPostgres,
		inTurnPostgres, "", "", "", leaveSQL, awaitPostgres,
		findSQL, choosePostgres, "",
	}
	holding := holdingPostgres
	tokens := d.Table(names.Schema, names.Table+"_token")
	if d == tx.SQLite {
		s = texts{
			acquireSQLite, lookSQLite, renewSQLite, releaseSQLite, guardSQLite, "",
			listSQLite, resignSQL, cutSQLite, evictSQLite,
			"", goneSQLite, placeSQLite, aheadSQLite, leaveSQL, "",
			findSQL, chooseSQLite, soonestSQLite,
		}
		holding = holdingSQLite
	} else {
		tokens = strings.ReplaceAll(tokens, "'", "''") // it stands in a string
	}
	in := strings.NewReplacer(
		"{table}", d.Table(names.Schema, names.Table), "{tokens}", tokens, "{now}", d.Now, "{holding}", holding, "{notify}", notifyPostgres,
		"{waiters}", d.Table(names.Schema, names.Table+waiterSuffix),
	)
	for _, text := range []*string{
		&s.acquire, &s.look, &s.renew, &s.release, &s.guard, &s.old, &s.list, &s.resign, &s.cut, &s.renumber,
		&s.inTurn, &s.gone, &s.place, &s.ahead, &s.leave, &s.await, &s.find, &s.choose, &s.soonest,
	} {
		*text = in.Replace(*text)
	}
	return s
}
