package pgxtx

import "github.com/jackc/pgx/v5"

var allBinary = []int16{pgx.BinaryFormatCode}

// encode encodes arguments before the server has told their types, as pgx does in exec mode: text, but bytes as they
// are. The server infers the types from the statement.
func encode(conn *pgx.Conn, args []any) (values [][]byte, formats []int16, err error) {
	if len(args) == 0 {
		return nil, nil, nil
	}
	values = make([][]byte, len(args))
	formats = make([]int16, len(args))
	var builder pgx.ExtendedQueryBuilder
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
		case string:
			values[i] = []byte(v)
		case []byte:
			values[i], formats[i] = v, pgx.BinaryFormatCode
		default:
			if err := builder.Build(conn.TypeMap(), nil, args[i:i+1]); err != nil {
				return nil, nil, err
			}
			values[i] = append([]byte(nil), builder.ParamValues[0]...)
			if builder.ParamValues[0] == nil {
				values[i] = nil
			}
		}
	}
	return values, formats, nil
}
