package sqltx

import (
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// Options set what database/sql cannot. The zero value is ready to use.
type Options struct {
	// BusyTimeout is how long a SQLite connection waits for a lock of another connection before a statement fails. It
	// is set on connections whose own busy timeout is 0; one that the data source name sets is left alone. PostgreSQL
	// does not use it. Default: 5 s.
	BusyTimeout time.Duration
}

// New returns a DB over db, whose driver speaks dialect: [tx.PostgreSQL] or [tx.SQLite]. Nil options are the defaults.
// The pool stays the caller's, who closes it. New panics if db is nil, or dialect neither of the two.
func New(db *sql.DB, dialect *tx.Dialect, o *Options) *tx.DB[*sql.Tx] {
	if db == nil {
		panic("sqltx: New: the *sql.DB is nil: look at the error of sql.Open")
	}
	if dialect != tx.PostgreSQL && dialect != tx.SQLite {
		panic("sqltx: New: the dialect is neither tx.PostgreSQL nor tx.SQLite")
	}
	d := &driver{db: db, dialect: dialect, busyTimeout: 5 * time.Second}
	if o != nil && o.BusyTimeout > 0 {
		d.busyTimeout = o.BusyTimeout
	}
	return tx.New(d)
}

type driver struct {
	db          *sql.DB
	dialect     *tx.Dialect
	busyTimeout time.Duration
	sessions    sync.Map // *sql.Tx to *session: the transactions that are open
	texts       sync.Map // string to string: statements with the dialect's own placeholders
	textCount   atomic.Int64
}

func (d *driver) sqlite() bool { return d.dialect == tx.SQLite }

func (d *driver) Wrap(t *sql.Tx) tx.Tx { return wrapped{d: d, t: t} }

func (d *driver) Conn() tx.Conn { return poolConn{d} }

// Pool tells that DBs of one pool share their transactions.
func (d *driver) Pool() any { return d.db }

func (d *driver) Classify(err error) tx.Class { return tx.Classify(err) }

const maxTexts = 1000

// rebind rewrites the placeholders of query, once for each text: patterns run a few fixed ones. The bound is for callers
// that build theirs.
func (d *driver) rebind(query string) string {
	if !d.sqlite() {
		return query
	}
	if text, ok := d.texts.Load(query); ok {
		return text.(string)
	}
	text := d.dialect.Rebind(query)
	if d.textCount.Load() < maxTexts {
		if _, known := d.texts.LoadOrStore(query, text); !known {
			d.textCount.Add(1)
		}
	}
	return text
}
