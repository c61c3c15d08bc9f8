package pgxtx

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/tx"
)

// prepared are the statements that the pipe has parsed on one connection. It hangs on the connection and dies with it.
type prepared struct {
	enabled bool
	max     int
	next    int
	known   map[statement]*pgconn.StatementDescription
	encoder encoder
}

type statement struct {
	sql    string
	fenced bool
	rows   bool // are read
}

// noRows are the columns of a statement that has none. Without any, pgconn would have them described anew each time.
var noRows = []pgconn.FieldDescription{{}}

const customDataKey = "github.com/holdfast-go/holdfast/tx/pgxtx"

// preparedOn returns the statements of conn. Only the mode that caches statements names them; the others, made for
// connection poolers, parse each time.
func preparedOn(conn *pgx.Conn, p *pipe) *prepared {
	data := conn.PgConn().CustomData()
	if known, ok := data[customDataKey].(*prepared); ok {
		return known
	}
	known := &prepared{
		enabled: p.mode == pgx.QueryExecModeCacheStatement && p.capacity > 0,
		max:     p.capacity,
		known:   map[statement]*pgconn.StatementDescription{},
	}
	data[customDataKey] = known
	return known
}

func key(s *tx.Stmt) statement {
	return statement{sql: s.SQL, fenced: s.MustAffect != nil, rows: len(s.Dest) > 0}
}

// lasting reports whether s comes again, and is worth a name: it has arguments, or is one of those that frame a transaction.
// A COMMIT that goes alone has none, so that it works whatever the closure did to the statements of the session.
func (p *prepared) lasting(s *tx.Stmt, alone bool) bool {
	switch {
	case !p.enabled:
		return false
	case s.SQL == commitSQL:
		return !alone
	}
	return len(s.Args) > 0 || s.SQL == tx.SetSavepoint || strings.HasPrefix(s.SQL, beginSQL)
}

// knows reports whether nothing of stmts is yet to be parsed under a name.
func (p *prepared) knows(stmts []*tx.Stmt) bool {
	for _, s := range stmts {
		if p.known[key(s)] == nil && p.lasting(s, false) && len(p.known) < p.max {
			return false
		}
	}
	return true
}

// find returns s as the connection knows it, and whether it is yet to be parsed. When the connection has its fill of
// statements, it is nil.
func (p *prepared) find(s *tx.Stmt) (known *pgconn.StatementDescription, fresh bool) {
	if known := p.known[key(s)]; known != nil {
		return known, false
	}
	if len(p.known) >= p.max {
		return nil, false
	}
	p.next++
	known = &pgconn.StatementDescription{Name: "holdfast_" + strconv.Itoa(p.next)}
	p.known[key(s)] = known
	return known, true
}

// learn keeps what the server said of s when it parsed it. The description under which s is already on its way a second
// time stays as it is.
func (p *prepared) learn(s *tx.Stmt, described *pgconn.StatementDescription) {
	if known := p.known[key(s)]; known != nil {
		described.Name = known.Name
		if len(s.Dest) == 0 && len(described.Fields) == 0 {
			described.Fields = noRows
		}
		p.known[key(s)] = described
	}
}

// forget drops the statements whose parsing was not confirmed.
func (p *prepared) forget(stmts []*tx.Stmt, fresh []bool) {
	for i, s := range stmts {
		if fresh[i] {
			delete(p.known, key(s))
		}
	}
}

func (p *prepared) clear() { clear(p.known) }
