// Package prove is a kit for tests: it proves that a handler is idempotent, or shows at which point it is not.
//
//	func TestChargeIsIdempotent(t *testing.T) {
//		db := prove.SQL("sqlite", file) // or Connector, Postgres, Driver; the tables are there
//		charge := prove.Handler[*sql.DB, Receipt]{
//			Call: func(ctx context.Context, db *sql.DB, key string) (Receipt, error) {
//				return shop.New(db).Charge(ctx, key, 100)
//			},
//			Effects: func(ctx context.Context, db *sql.DB, key string) (n int, err error) {
//				err = db.QueryRowContext(ctx, "select count(*) from charge where key = ?", key).Scan(&n)
//				return n, err
//			},
//		}
//		prove.Twice(t, db, charge)
//		prove.Together(t, db, charge)
//		prove.CrashEverywhere(t, db, charge)
//	}
//
// # Guarantees
//
// What is proved is that the operation of a key has one effect and one answer, when the call is repeated ([Twice]), made at
// the same moment ([Together]), or meets a failure at any of its operations on the database ([CrashEverywhere]). Each proof
// catches what it is for by holding calls at each point until the others have come there, or have seen what was left half
// done, and not by luck: a handler that looks and then acts fails Together, one that marks first and works later fails
// Together and CrashEverywhere.
//
// # Where faults come from
//
// [SQL] and [Connector] sit below database/sql, and see every statement of a handler, also one of an ORM. [Postgres] is a
// proxy for any client, pgx above all, and breaks the protocol itself at each message. [Driver] is for [tx.DB], and is the
// one that panics anywhere. [Through] makes a database what the handler takes: prove.Through(prove.SQL(…), shop.New).
//
// # Modes
//
// At a point of SQL, Connector or Driver: error-before and error-after the effect (of a commit the second is a lost reply),
// cut-before, cut-after, cancel-before, cancel-after, crash-before, crash-after, and panic and goexit where the place allows
// them. At a message of the protocol cut-before, in either direction; and where it ends a round trip also cut-after,
// cancel-before, cancel-after, crash-before, crash-after, silence and trickle.
//
// # Failure modes
//
// A failure is an error of the test that names the points and modes and how to run them alone:
//
//	prove: cut-after at point 3 (query insert into charge…), replay with HOLDFAST_FAULT=3:cut-after: after a retry: 2 effects, want 1
//
// Where each call of a key has an effect of its own, or the first none that Effects finds by the key, the error says that the
// handler ignores its key, and Twice is the shortest way to learn it.
//
// The points of a run are those of its order. A handler that works on several connections at once, or at random, may pass
// others in another run; the log then says how many faults were missed. HOLDFAST_ROUNDS is the number of random pairs of
// faults, HOLDFAST_SEED their seed.
//
// # When not to use it
//
// For effects outside the database: a crash there is not played. On data that anybody needs: the proofs leave theirs behind.
// In place of tests that kill processes: a process that is played here runs its deferred functions.
package prove
