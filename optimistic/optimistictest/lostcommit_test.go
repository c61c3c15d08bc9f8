package optimistictest_test

import (
	"context"
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

// O1 for what rides with COMMIT: the reply is lost after it was applied, or the request before. With a token the row tells; that
// it does not carry the token proves nothing. A retry with the token is applied once.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	direct := pgxdb.Pool(t, address, 8)
	if _, err := direct.Exec(t.Context(), createDoc); err != nil {
		t.Fatal(err)
	}
	proxy, err := wire.Start(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	db := pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8))
	docs := optimistic.New(db, docTable, nil)
	atCommit := func(w optimistic.Want) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, t pgx.Tx) error {
			_, err := docs.SetAtCommit(ctx, t, w, title)
			return err
		}
	}
	inUpdate := func(w optimistic.Want) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, t pgx.Tx) error {
			_, err := docs.SetTx(ctx, t, w, title)
			return err
		}
	}
	verbs := map[string]func(w optimistic.Want) error{
		"Edit": func(w optimistic.Want) error {
			w.Version = optimistic.Version{}
			_, err := docs.Edit(t.Context(), w, nil, func(context.Context, pgx.Tx) (map[string]any, error) { return title, nil })
			return err
		},
		"SetAtCommit in Update": func(w optimistic.Want) error { return docs.Update(t.Context(), w.Key, atCommit(w)) },
		"SetTx in Update":       func(w optimistic.Want) error { return docs.Update(t.Context(), w.Key, inUpdate(w)) },
		"SetAtCommit in Do":     func(w optimistic.Want) error { return db.Do(t.Context(), atCommit(w)) },
	}
	for verb, call := range verbs {
		for cut, hook := range map[string]func(wire.Match) *wire.Hook{"reply": proxy.CutReplyTo, "request": proxy.CutBefore} {
			for _, token := range []string{"", "op-1"} {
				w := optimistic.Want{Key: verb + cut + token, Version: optimistic.At(0), Token: token}
				if _, err := direct.Exec(t.Context(), "insert into doc (id) values ($1)", w.Key); err != nil {
					t.Fatal(err)
				}
				armed := hook(wire.Runs("commit"))
				err := call(w)
				if armed.Disarm(); armed.Hits() != 1 {
					t.Errorf("%s: cut %d times", w.Key, armed.Hits())
				}
				resolved := cut == "reply" && token != "" && verb != "SetAtCommit in Do"
				switch {
				case errors.Is(err, optimistic.ErrConflict):
					t.Errorf("%s: a conflict with itself: %v", w.Key, err)
				case resolved && err != nil, !resolved && cut == "reply" && !errors.Is(err, tx.ErrCommitUnknown),
					cut == "request" && (err == nil || holdfast.OutcomeOf(err) == holdfast.Applied):
					t.Errorf("%s: got %v", w.Key, err)
				}
				if token == "" {
					continue
				}
				if err := call(w); holdfast.OutcomeOf(err) != holdfast.Applied {
					t.Errorf("%s, again: got %v", w.Key, err)
				}
				var version int
				if err := direct.QueryRow(t.Context(), "select version from doc where id = $1", w.Key).Scan(&version); err != nil || version != 1 {
					t.Errorf("%s: version %d, %v", w.Key, version, err)
				}
			}
		}
	}
}
