// Package pgxtx runs the transactions of package tx on pgx v5.
//
//	db := pgxtx.New(pool) // pool is a *pgxpool.Pool
//	err := db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
//		_, err := t.Exec(ctx, "update account set balance = balance - $1 where id = $2", amount, id)
//		return err
//	})
//
// # Guarantees
//
// Those of package tx. The pgx.Tx of the closure works wherever one does: sqlc's WithTx, pgx.BeginFunc, nested Begin,
// SendBatch, CopyFrom, Prepare, LargeObjects. Its own Commit and Rollback return [tx.ErrOwned], since Do ends it. Any
// other pgx.Tx, also of a pool, a connection or a wrapper, can be handed to the patterns' Tx forms.
//
// # Round trips
//
// BEGIN and the statements that a pattern sends with it are one round trip, and so are deferred statements and COMMIT. A
// transaction of n statements costs n + 2. A statement that is new to the connection is parsed in the trip that runs it,
// under a name of its own ("holdfast_1", …), beside the statement cache of pgx; BEGIN, and a COMMIT that others ride with,
// are prepared as well. In the modes other than
// QueryExecModeCacheStatement, which are made for connection poolers, nothing is prepared; in
// QueryExecModeSimpleProtocol each statement is a trip.
//
// # Connections
//
// A transaction takes one connection of the pool. While somebody in the process waits for another process, in a pattern that says
// so, there is one more connection, which listens: it is opened with the pool's own configuration and BeforeConnect, is none of its
// MaxConns, and is closed a few seconds after the last has ceased to wait. Plan one more for each process in the server's
// max_connections. Where LISTEN does not work, as with PgBouncer in transaction mode, [tx.EventPolling] says so, once, and patterns
// look again from time to time.
//
// # Failure modes
//
// A connection that died in the pool is found out by BEGIN, and another is tried. One that dies before COMMIT was sent
// means that nothing was applied; one that dies between COMMIT and its reply gives [tx.ErrCommitUnknown]. An error of the
// server in a pipeline before COMMIT proves that COMMIT did not run. If the server has dropped what was prepared, as
// DISCARD ALL does, BEGIN finds it out and is sent again; if that happened in the transaction, the transaction is run again.
//
// When the context of a statement ends, pgx closes the connection and asks the server to cancel. A request that arrives
// before its query does is lost: the server then runs the query to its end, with its locks. statement_timeout or
// client_connection_check_interval bounds that.
//
// # When not to use it
//
// With database/sql, also over pgx: that is package sqltx.
package pgxtx
