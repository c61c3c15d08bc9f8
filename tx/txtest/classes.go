package txtest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/tx"
)

func classRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "class unique", rule: "A unique violation is told, with its constraint.", check: classUnique[T]},
		{name: "class foreign key", rule: "A foreign key violation is told, with its constraint where the engine names it.", check: classForeignKey[T]},
		{name: "class check", rule: "A check violation is told, with its constraint.", check: classCheck[T]},
		{
			name: "class exclusion", rule: "An exclusion violation is told, with its constraint.",
			needs: func(c tx.Capabilities) bool { return c.ExclusionConstraints }, check: classExclusion[T],
		},
		{name: "class undefined", rule: "A missing table or column is ErrNotMigrated.", check: classUndefined[T]},
		{name: "class read-only", rule: "A write in a read-only transaction is ErrReadOnly.", check: classReadOnly[T]},
		{name: "class permanent", rule: "Errors of syntax, of arithmetic and of the closure are permanent.", check: classPermanent[T]},
	}
}

// provoke runs the statements in a transaction and returns its error, which must be of the class.
func (f *fixture[T]) provoke(class tx.Class, query string, args ...any) error {
	f.Helper()
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		_, err := f.DB.Tx(t).Exec(ctx, query, args...)
		return err
	})
	if aborted := f.wantAborted(err, nil); aborted.Class != class || f.DB.Classify(err) != class {
		f.Errorf("%s: the class of %v is %v, want %v", query, err, aborted.Class, class)
	}
	return err
}

// wantConstraint checks a probe. SQLite tells the columns of a unique constraint, and nothing of a foreign key.
func (f *fixture[T]) wantConstraint(probe func(error) (string, bool), err error, name, onSQLite string) {
	f.Helper()
	if f.DB.Dialect() == tx.SQLite {
		name = onSQLite
	}
	if got, ok := probe(err); !ok || got != name {
		f.Errorf("the constraint of %v is %q, %v, want %q", err, got, ok, name)
	}
}

func classUnique[T any](f *fixture[T]) {
	f.exec("create table member (id integer primary key, email text constraint member_email unique, " +
		"town text, street text, constraint member_address unique (town, street))")
	f.exec("create table label (name text)")
	f.exec("create unique index label_lower on label (lower(name))")
	f.exec("insert into label values ('new')")
	f.exec("insert into member values (1, 'a@example.com', 'Ghent', 'Veldstraat')")
	insert := "insert into member (id, email, town, street) values ($1, $2, $3, $4)"
	f.wantConstraint(tx.UniqueViolation, f.provoke(tx.Unique, insert, 1, "b", "c", "d"), "member_pkey", "member.id")
	f.wantConstraint(tx.UniqueViolation, f.provoke(tx.Unique, insert, 2, "a@example.com", "c", "d"), "member_email", "member.email")
	f.wantConstraint(tx.UniqueViolation, f.provoke(tx.Unique, insert, 2, "b", "Ghent", "Veldstraat"),
		"member_address", "member.town, member.street")
	f.wantConstraint(tx.UniqueViolation, f.provoke(tx.Unique, "insert into label values ('New')"), "label_lower", "index 'label_lower'")
	if _, ok := tx.CheckViolation(f.provoke(tx.Unique, insert, 1, "b", "c", "d")); ok {
		f.Error("a unique violation passes for a check violation")
	}
}

func classForeignKey[T any](f *fixture[T]) {
	f.exec("create table entry (account integer not null constraint entry_account references account (id))")
	err := f.provoke(tx.ForeignKey, "insert into entry (account) values ($1)", 3)
	f.wantConstraint(tx.ForeignKeyViolation, err, "entry_account", "")
	f.exec("insert into entry (account) values (1)")
	f.provoke(tx.ForeignKey, "delete from account where id = $1", 1)
}

func classCheck[T any](f *fixture[T]) {
	f.exec("create table stock (n integer constraint stock_not_negative check (n >= 0))")
	err := f.provoke(tx.Check, "insert into stock (n) values ($1)", -1)
	f.wantConstraint(tx.CheckViolation, err, "stock_not_negative", "stock_not_negative")
}

func classExclusion[T any](f *fixture[T]) {
	f.exec("create table booking (slot int4range, constraint booking_overlap exclude using gist (slot with &&))")
	f.exec("insert into booking values (int4range(1, 5))")
	err := f.provoke(tx.Exclusion, "insert into booking values (int4range(4, 6))")
	f.wantConstraint(tx.ExclusionViolation, err, "booking_overlap", "")
}

func classUndefined[T any](f *fixture[T]) {
	for _, query := range []string{
		"select * from missing", "insert into missing values (1)", "select missing from account",
		"update account set missing = 1", "insert into account (id, missing) values (3, 1)",
	} {
		if err := f.provoke(tx.Undefined, query); !errors.Is(err, tx.ErrNotMigrated) {
			f.Errorf("%s: got %v, want %v", query, err, tx.ErrNotMigrated)
		}
	}
}

func classReadOnly[T any](f *fixture[T]) {
	err := f.DB.With(tx.Options{ReadOnly: true}).Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) })
	if aborted := f.wantAborted(err, tx.ErrReadOnly); aborted.Class != tx.ReadOnly {
		f.Errorf("the class is %v, want %v", aborted.Class, tx.ReadOnly)
	}
	f.wantBalance(1, 100)
}

func classPermanent[T any](f *fixture[T]) {
	f.provoke(tx.Permanent, "this is not SQL")
	f.provoke(tx.Permanent, "insert into account (id, balance) values (3, null)")
	if got := f.DB.Classify(errRefused); got != tx.Permanent {
		f.Errorf("the class of an error of the closure is %v, want %v", got, tx.Permanent)
	}
	if got := f.DB.Classify(nil); got != tx.Permanent {
		f.Errorf("the class of nil is %v, want %v", got, tx.Permanent)
	}
}
