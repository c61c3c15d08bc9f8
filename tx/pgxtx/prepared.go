package pgxtx

import (
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/tx"
)

// prepared are the statements that the pipe has parsed on one connection. It hangs on the connection and dies with it.
type prepared struct {
	enabled bool
	max     int
	next    int
	names   map[statement]string
}

type statement struct {
	sql    string
	fenced bool
}

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
		names:   map[statement]string{},
	}
	data[customDataKey] = known
	return known
}

func key(s *tx.Stmt) statement { return statement{sql: s.SQL, fenced: s.MustAffect != nil} }

// name returns the name of s on the connection, and whether the server knows it already. When the connection has its
// fill of statements, the name is "".
func (p *prepared) name(s *tx.Stmt) (name string, known bool) {
	if name, known = p.names[key(s)]; known {
		return name, true
	}
	if len(p.names) >= p.max {
		return "", false
	}
	p.next++
	name = "holdfast_" + strconv.Itoa(p.next)
	p.names[key(s)] = name
	return name, false
}

// forget drops the statements whose parsing was not confirmed.
func (p *prepared) forget(stmts []*tx.Stmt, fresh []bool) {
	for i, s := range stmts {
		if fresh[i] {
			delete(p.names, key(s))
		}
	}
}

func (p *prepared) clear() { clear(p.names) }
