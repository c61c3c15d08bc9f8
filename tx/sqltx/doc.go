// Package sqltx runs the transactions of package tx on database/sql: PostgreSQL through any driver, and SQLite.
//
//	db := sqltx.New(pool, tx.SQLite, nil) // pool is a *sql.DB
//	err := db.Do(ctx, func(ctx context.Context, t *sql.Tx) error {
//		_, err := t.ExecContext(ctx, "update account set balance = balance - ? where id = ?", amount, id)
//		return err
//	})
//
// # Guarantees
//
// Those of package tx. The *sql.Tx of the closure is the real one, for sqlc's WithTx and whatever else takes it. A
// *sql.Tx that the caller began can be handed to the patterns' Tx forms; *sqlx.Tx and bun.Tx embed one, as t.Tx.
//
//   - The context of the caller ends the wait for a connection, the BEGIN and each statement that is given it. It never
//     ends the transaction: database/sql would roll back from another goroutine while the closure is at work.
//   - A transaction on SQLite holds the write lock from its start, whatever the data source name says, so it never fails
//     for having read first; it waits for that lock as long as the busy timeout and the context allow. A read-only one
//     cannot write, and does not wait (unless _txlock makes mattn/go-sqlite3 lock there too: leave that out).
//   - A connection that may still hold something of a transaction does not go back to the pool.
//   - [tx.DB.Conn] runs a statement once. A *sql.DB may run it twice: it tries again when the driver returns
//     driver.ErrBadConn, which pgx and lib/pq do for some lost replies.
//
// # Round trips
//
// database/sql cannot pipeline: BEGIN, COMMIT, each statement that a pattern sends along with them and each deferred
// statement is a trip of its own. With pgx, package pgxtx saves those. On SQLite a statement is a call.
//
// # Failure modes
//
// A connection that died in the pool is found out by BEGIN, and another is tried. After COMMIT was sent, only an answer of
// the server is believed: any other error is [tx.ErrCommitUnknown], also driver.ErrBadConn. A closure that calls Commit
// or Rollback on its *sql.Tx, or sends them as SQL, gets a [tx.EndedError]. So does one on SQLite that drops an error
// after which the engine has rolled back by itself, as a full disk, an interrupted write and RAISE(ROLLBACK) make it: what
// followed was committed statement by statement. A closure that returns such an error gets an abort like any other.
//
// A driver that does not come back from COMMIT or ROLLBACK keeps its connection, and a goroutine, until it does; Do
// returns after the commit timeout.
//
// # Storage
//
// Tested on PostgreSQL with github.com/jackc/pgx/v5/stdlib and github.com/lib/pq, and on SQLite with
// modernc.org/sqlite and github.com/mattn/go-sqlite3. None of them is imported. A SQLite database in memory needs a pool
// of one connection, or a shared cache. SQLite checks foreign keys only when told to.
//
// # Settings
//
// [Options] hold the busy timeout of SQLite. The rest are [tx.Options] and the settings of the pool.
//
// There are no notifications through database/sql: who waits for another process looks again from time to time.
//
// # When not to use it
//
// With pgx of its own: package pgxtx costs fewer round trips. In transaction mode behind a pooler, lib/pq and pgx need
// their settings for it.
package sqltx
