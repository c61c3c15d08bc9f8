// Package optimistic keeps two writers from undoing each other: a write says which version of the row its decision was made on, and
// is refused if the row has another one by now. The table is the caller's own, with an integer column for the version.
//
//	docs := optimistic.New(db, optimistic.Table{Name: "document"}, nil) // columns id and version
//
//	// in the handler of PUT /documents/{id}, whose client sends If-Match with the ETag that it read
//	cond, err := optimistic.ParseCondition(r.Header)
//	v, created, err := docs.Put(ctx, optimistic.Want{Key: id}, cond, optimistic.PlainRefuse, map[string]any{"title": title})
//	if optimistic.Refuse(w, err) { // 412 with the current ETag, 428, 400
//		return
//	}
//	w.Header().Set("ETag", v.ETag())
//
// SQL of the caller's own, written by hand or generated, stays as it is: it has the predicate, and [Rows.Affected] or
// [Rows.Returned] make of its result what it means. [Rows.Set], [Rows.Insert], [Rows.Delete], [Rows.SetMany] and [Rows.Put] are for
// simple tables. [Rows.Edit] and [Rows.Update] read, decide and write again when they lost a race; [Rows.SetAtCommit] leaves the last write
// of a closure to its commit.
//
// # Guarantees
//
//   - A write is applied only if the row has the version that it is for, at the moment of the write: the comparison is in the
//     statement that writes. A conflict is an error, always, and carries the current version; a row that is not there
//     is another one. Both leave a transaction of the caller's usable.
//   - An unset version is refused. Version 0 is a version: presence is not told by a value.
//   - A statement is not rewritten.
//   - With a token, a retry whose first attempt was applied and whose reply was lost is a success, and applied once, as long as
//     nobody else has written since. Without one, a lost reply is reported as unknown, and never as a conflict.
//   - What rides with COMMIT is guarded as what does not: the commit does not happen without it.
//   - Update and Edit make progress on a hot row: after a few losses they lock the row, where the database can.
//   - A batch locks its rows in the order of their keys, and tells for each what became of it.
//
// They hold at READ COMMITTED, REPEATABLE READ and SERIALIZABLE. At the latter two a race that is lost to a transaction at the same
// time is a serialization failure, which [tx.DB.Do] and Update retry and a caller's own transaction must; it is not
// [ErrConflict].
//
// # Failure modes
//
//   - A writer that does not use the version, such as a script, is not seen, unless a trigger increases it. A counter of package
//     counter is one: leave its column out of what is set.
//   - The server that loads the row and takes the version from there, in place of the one that the user sent, accepts
//     whatever the user has overlooked.
//   - A row that is deleted and made anew begins with the same versions again, so that a stale write can pass. Use
//     [Options].SeedVersions, or keys that are not used again.
//   - A timestamp is no version: two writes in one tick have the same.
//   - The key of the table must be one unique column. [Rows.Check] looks.
//   - A write that waited for another one and then was refused keeps the row locked on PostgreSQL, until the end of the transaction that it
//     is part of.
//   - What rides with COMMIT waits for a row that somebody else has locked no longer than [tx.Options].CommitTimeout. After that the
//     outcome is unknown: with a token the row tells, and a retry is safe.
//
// # Storage
//
// None of its own: a column such as "version bigint not null default 0" in the caller's table, and for tokens a nullable one such as
// "op text". A write with a token stores it, and one without removes it.
//
// # Round trips
//
// On pgx, outside a transaction: [Rows.Set], Insert, Delete, SetMany and Put of one version take 1, and 2 when refused. In a
// transaction they take 1 more than it, and 2 more when refused; SetAtCommit takes none, and only the rollback when refused. A check
// of the caller's own statement takes none, and 1 when it was refused. Edit takes 2, of a hot row too, and 2 more for each race that
// it lost.
//
// # Settings
//
// LockAfter 3 suits rows that are hot at times; a row that always is wants a lock from the start, or a counter. On SQLite a
// write transaction is the only one from its start, so that no race is lost within it.
//
// # When not to use it
//
// For sums: "set n = n + $1" needs no version. For several rows that must agree: lock them, or use SERIALIZABLE. For an operation
// that must happen once whatever is written in between: use an idempotency key.
package optimistic
