package optimistictest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A rig is a table with one row, reached through a proxy that counts.
type rig struct {
	*wiretest.Rig
	db   *tx.DB[pgx.Tx]
	docs *optimistic.Rows[pgx.Tx]
	ctx  context.Context //nolint:containedctx // it is that of the test
	at   optimistic.Version
}

const createDoc = `create table doc (id text primary key, title text not null default '', version integer not null default 0, op text)`

func openRig(t *testing.T, mode pgx.QueryExecMode) *rig {
	t.Helper()
	r := &rig{Rig: wiretest.Open(t, mode), ctx: t.Context()}
	r.db = pgxtx.New(r.Pool)
	r.docs = optimistic.New(r.db, optimistic.Table{Name: "doc", Token: "op"}, nil)
	r.Exec(createDoc)
	r.Exec("insert into doc (id) values ('a')")
	r.at = optimistic.At(0)
	return r
}

func (r *rig) want() optimistic.Want { return optimistic.Want{Key: "a", Version: r.at} }

func (r *rig) stale() optimistic.Want { return optimistic.Want{Key: "a", Version: optimistic.At(-1)} }

var title = map[string]any{"title": "x"}

// wrote takes over the new version.
func (r *rig) wrote(v optimistic.Version, err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
	r.at = v
}

func (r *rig) refused(_ optimistic.Version, err error) {
	r.Helper()
	if !errors.Is(err, optimistic.ErrConflict) {
		r.Errorf("got %v", err)
	}
}

func (r *rig) do(fn func(ctx context.Context, t pgx.Tx)) {
	r.Helper()
	if err := r.db.Do(r.ctx, func(ctx context.Context, t pgx.Tx) error { fn(ctx, t); return nil }); err != nil {
		r.Error(err)
	}
}

func own(ctx context.Context, t pgx.Tx, w optimistic.Want) (int64, error) {
	tag, err := t.Exec(ctx, "update doc set title = 'own', version = version + 1 where id = $1 and version = $2", w.Key, w.Version)
	return tag.RowsAffected(), err
}

// trips are warm and cold, in the order of wiretest.Modes: default, exec, cache_describe, describe_exec and simple protocol.
type trips [5][2]int

// Cold, the modes that ask the server about a statement first pay a trip for each.
var pins = []struct {
	name string
	want trips
	call func(r *rig)
}{
	{"Set costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func(r *rig) { r.wrote(r.docs.Set(r.ctx, r.want(), title)) }},
	{"Set, refused, costs two", trips{{2, 4}, {2, 2}, {2, 4}, {4, 4}, {2, 2}}, func(r *rig) { r.refused(r.docs.Set(r.ctx, r.stale(), title)) }},
	{"Insert, refused, costs two", trips{{2, 4}, {2, 2}, {2, 4}, {4, 4}, {2, 2}}, func(r *rig) {
		r.refused(r.docs.Insert(r.ctx, optimistic.Want{Key: "a"}, title))
	}},
	{"Delete, refused, costs two", trips{{2, 4}, {2, 2}, {2, 4}, {4, 4}, {2, 2}}, func(r *rig) { r.refused(r.docs.Delete(r.ctx, r.stale())) }},
	{"Put with If-Match costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func(r *rig) {
		c, _ := optimistic.ParseCondition(map[string][]string{"If-Match": {r.at.ETag()}})
		v, _, err := r.docs.Put(r.ctx, optimistic.Want{Key: "a"}, c, optimistic.PlainRefuse, title)
		r.wrote(v, err)
	}},
	{"SetMany of 100 costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func(r *rig) {
		items := []optimistic.Item{{Want: r.want(), Set: title}}
		for i := range 99 {
			items = append(items, optimistic.Item{Want: optimistic.Want{Key: string(rune('α' + i)), Version: r.at}, Set: title})
		}
		results, err := r.docs.SetMany(r.ctx, items)
		if err == nil {
			err = results[0].Err
		}
		r.wrote(results[0].Version, err)
	}},
	{"SetTx in Do costs one more", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {3, 3}}, func(r *rig) {
		r.do(func(ctx context.Context, t pgx.Tx) { r.wrote(r.docs.SetTx(ctx, t, r.want(), title)) })
	}},
	{"a check of the caller's own statement costs nothing", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {3, 3}}, func(r *rig) {
		r.do(func(ctx context.Context, t pgx.Tx) {
			n, err := own(ctx, t, r.want())
			r.wrote(r.docs.Affected(ctx, t, r.want(), n, err))
		})
	}},
	{"a check that refuses costs one", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {4, 4}}, func(r *rig) {
		r.do(func(ctx context.Context, t pgx.Tx) {
			n, err := own(ctx, t, r.stale())
			r.refused(r.docs.Affected(ctx, t, r.stale(), n, err))
		})
	}},
	{"SetAtCommit costs nothing", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {4, 4}}, func(r *rig) {
		r.do(func(ctx context.Context, t pgx.Tx) { r.wrote(r.docs.SetAtCommit(ctx, t, r.want(), title)) })
	}},
	{"SetAtCommit, refused, costs the rollback", trips{{3, 3}, {3, 3}, {3, 3}, {3, 3}, {4, 4}}, func(r *rig) {
		r.refused(optimistic.Version{}, r.db.Do(r.ctx, func(ctx context.Context, t pgx.Tx) error {
			_, err := r.docs.SetAtCommit(ctx, t, r.stale(), title)
			return err
		}))
	}},
	{"Update with SetAtCommit costs its read and one more than Set", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {5, 5}}, func(r *rig) {
		err := r.docs.Update(r.ctx, "a", func(ctx context.Context, t pgx.Tx) (err error) {
			if err := t.QueryRow(ctx, "select version from doc where id = $1", "a").Scan(&r.at); err != nil {
				return err
			}
			r.at, err = r.docs.SetAtCommit(ctx, t, r.want(), title)
			return err
		})
		r.wrote(r.at, err)
	}},
	{"Edit costs two", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {4, 4}}, func(r *rig) {
		r.wrote(r.docs.Edit(r.ctx, optimistic.Want{Key: "a"}, map[string]any{"title": new(string)}, retitle))
	}},
	{"Edit of another version costs the rollback", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {3, 3}}, func(r *rig) {
		r.refused(r.docs.Edit(r.ctx, r.stale(), nil, retitle))
	}},
	{"Edit that has lost and locks costs two, and what it lost", trips{{4, 4}, {4, 4}, {4, 4}, {4, 4}, {7, 7}}, func(r *rig) {
		docs := optimistic.New(r.db, optimistic.Table{Name: "doc", Token: "op"}, &optimistic.Options{LockAfter: 1})
		r.wrote(docs.Edit(r.ctx, optimistic.Want{Key: "a"}, nil, func(ctx context.Context, _ pgx.Tx) (map[string]any, error) {
			if optimistic.Attempt(ctx) == 1 {
				return nil, &optimistic.ConflictError{}
			}
			if holdfast.ExternalCall(ctx) == nil {
				r.Error("nothing is locked")
			}
			return title, nil
		}))
	}},
	{"Edit that is outrun costs a rollback and a look", trips{{4, 5}, {4, 4}, {4, 5}, {5, 5}, {5, 5}}, func(r *rig) {
		r.refused(r.docs.Edit(r.ctx, r.want(), nil, func(context.Context, pgx.Tx) (map[string]any, error) {
			r.Exec("update doc set version = version + 1")
			v, _ := r.at.Int64()
			r.at = optimistic.At(v + 1)
			return title, nil
		}))
	}},
	{"Update costs what its statements do", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {4, 4}}, func(r *rig) {
		err := r.docs.Update(r.ctx, "a", func(ctx context.Context, t pgx.Tx) (err error) {
			if err := t.QueryRow(ctx, "select version from doc where id = $1", "a").Scan(&r.at); err != nil {
				return err
			}
			r.at, err = r.docs.SetTx(ctx, t, r.want(), title)
			return err
		})
		r.wrote(r.at, err)
	}},
}

func retitle(context.Context, pgx.Tx) (map[string]any, error) { return title, nil }

func TestRoundTrips(t *testing.T) {
	for i, mode := range wiretest.Modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := openRig(t, mode)
			for _, pin := range pins {
				t.Run(pin.name, func(t *testing.T) {
					r.Rig.TB, r.ctx = t, t.Context()
					r.Cold()
					if got := r.WarmAndCold(func() { pin.call(r) }); got != pin.want[i] {
						t.Errorf("%d trips warm and %d cold, want %v", got[0], got[1], pin.want[i])
					}
				})
			}
		})
	}
}
