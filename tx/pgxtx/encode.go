package pgxtx

import (
	"strconv"

	"github.com/jackc/pgx/v5"
)

var allBinary = []int16{pgx.BinaryFormatCode}

// maxScratch is how much memory an encoder keeps from one statement to the next.
const maxScratch = 64 << 10

// An encoder encodes the arguments of statements, in memory that it uses again.
type encoder struct {
	values  [][]byte
	formats []int16
	scratch []byte
}

// encode encodes arguments before the server has told their types, as pgx does in exec mode: text, but bytes as they
// are. The server infers the types from the statement. What it returns holds until the next call.
func (e *encoder) encode(conn *pgx.Conn, args []any) (values [][]byte, formats []int16, err error) {
	if cap(e.scratch) == 0 || cap(e.scratch) > maxScratch {
		e.scratch = make([]byte, 0, 512) // never nil, since nil is NULL
	}
	e.values, e.formats, e.scratch = e.values[:0], e.formats[:0], e.scratch[:0]
	for i, arg := range args {
		var value []byte
		var format int16
		at := len(e.scratch)
		switch v := arg.(type) {
		case nil:
		case []byte:
			value, format = v, pgx.BinaryFormatCode
		case string:
			e.scratch = append(e.scratch, v...)
			value = e.scratch[at:]
		case int64:
			e.scratch = strconv.AppendInt(e.scratch, v, 10)
			value = e.scratch[at:]
		case int:
			e.scratch = strconv.AppendInt(e.scratch, int64(v), 10)
			value = e.scratch[at:]
		default:
			var builder pgx.ExtendedQueryBuilder
			if err := builder.Build(conn.TypeMap(), nil, args[i:i+1]); err != nil {
				return nil, nil, err
			}
			value = builder.ParamValues[0] // nil is NULL
		}
		e.values, e.formats = append(e.values, value), append(e.formats, format)
	}
	return e.values, e.formats, nil
}

// release lets go of the caller's bytes.
func (e *encoder) release() { clear(e.values[:cap(e.values)]) }
