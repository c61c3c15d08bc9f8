package optimistictest_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// O1: the reply to a write that was applied is lost. With a token the call finds its own write, and so does a retry; without
// one the outcome is unknown, and never a conflict with itself.
func TestLostReply(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	direct := pgxdb.Pool(t, address, 8)
	if _, err := direct.Exec(t.Context(), createDoc+"; insert into doc (id) values ('token'), ('none'), ('before')"); err != nil {
		t.Fatal(err)
	}
	proxy, err := wire.Start(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	docs := optimistic.New(pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8)), optimistic.Table{Name: "doc", Token: "op"}, nil)
	write := func(key, token string, hook func(wire.Match) *wire.Hook) (optimistic.Version, error) {
		if hook != nil {
			hook(wire.Runs("update"))
		}
		return docs.Set(t.Context(), optimistic.Want{Key: key, Version: optimistic.At(0), Token: token}, title)
	}

	v, err := write("token", "op-1", proxy.CutReplyTo)
	if err != nil || v != optimistic.At(1) {
		t.Errorf("with a token: got %v, %v", v, err)
	}
	if v, err = write("token", "op-1", nil); err != nil || v != optimistic.At(1) {
		t.Errorf("its retry: got %v, %v", v, err)
	}

	_, err = write("none", "", proxy.CutReplyTo)
	if errors.Is(err, optimistic.ErrConflict) || !errors.Is(err, tx.ErrCommitUnknown) || holdfast.OutcomeOf(err) != holdfast.Unknown {
		t.Errorf("without a token: got %v", err)
	}

	_, err = write("before", "op-2", proxy.CutBefore)
	if holdfast.OutcomeOf(err) == holdfast.Applied || errors.Is(err, optimistic.ErrConflict) {
		t.Errorf("a write that never came: got %v", err)
	}
	if v, err = write("before", "op-2", nil); err != nil || v != optimistic.At(1) {
		t.Errorf("its retry: got %v, %v", v, err)
	}

	rows, err := direct.Query(t.Context(), "select version from doc")
	if err != nil {
		t.Fatal(err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		if version != 1 {
			t.Errorf("a row was written %d times", version)
		}
	}
}
