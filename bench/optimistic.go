package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/optimistic"
)

// cas writes rows that nobody else writes.
var cas = group{
	name: "optimistic",
	variants: func(s *setup) []variant {
		return []variant{
			{"pgx, compare and set, version known", s.casKnown},
			{"Rows.Set, version known", s.setKnown},
			{"pgx, read, compare and set", s.readCAS},
			{"read, Rows.Set", s.readSet},
		}
	},
	bars: []bar{{at: 1, reference: 0, direct: 0.85, remote: 0.95}, {at: 3, reference: 2, direct: 0.85, remote: 0.95}},
}

// hotRow has all callers write one row. With one caller there is nobody to lose to.
var hotRow = group{
	name: "optimistic-hot",
	variants: func(s *setup) []variant {
		return []variant{
			{"pgx, read, compare and set until it wins, one row for all", s.hotCAS},
			{"Rows.Edit, one row for all", s.hotEdit},
			{"Rows.Update with SetAtCommit, one row for all", s.hotAtCommit},
			{"Rows.Update with SetTx, one row for all", s.hotUpdate},
		}
	},
	bars: []bar{{at: 1, direct: 0.85, remote: 3, byCallers: map[int]float64{8: 3, 32: 4}}},
}

const (
	docSchema = `create table doc (id text primary key, size bigint not null default 0, version bigint not null default 0)`
	readSQL   = `select size, version from doc where id = $1`
	casSQL    = `update doc set size = $3, version = version + 1 where id = $1 and version = $2 returning version`
)

// docs are the rows of the optimistic groups: one for each worker, and one for all.
type docs struct {
	rows     *optimistic.Rows[pgx.Tx]
	versions []int64 // by worker
}

func (s *setup) openDocs(ctx context.Context, callers int) error {
	if _, err := s.pool.Exec(ctx, docSchema+"; insert into doc (id) values ('hot')"); err != nil {
		return err
	}
	s.docs = docs{rows: optimistic.New(s.db, optimistic.Table{Name: "doc"}, &optimistic.Options{Attempts: 1000}), versions: make([]int64, callers)}
	for worker := range callers {
		if _, err := s.pool.Exec(ctx, "insert into doc (id) values ($1)", docOf(worker)); err != nil {
			return err
		}
	}
	return nil
}

func docOf(worker int) string { return "doc-" + strconv.Itoa(worker) }

// casKnown writes a row whose version is known, as careful hand-written code does.
func (s *setup) casKnown(ctx context.Context, worker int, seq int64) error {
	at := &s.docs.versions[worker]
	return s.pool.QueryRow(ctx, casSQL, docOf(worker), *at, seq).Scan(at)
}

func (s *setup) setKnown(ctx context.Context, worker int, seq int64) error {
	at := &s.docs.versions[worker]
	v, err := s.docs.rows.Set(ctx, optimistic.Want{Key: docOf(worker), Version: optimistic.At(*at)}, map[string]any{"size": seq})
	if err == nil {
		*at, _ = v.Int64()
	}
	return err
}

// naiveCAS reads and writes until it wins.
func (s *setup) naiveCAS(ctx context.Context, id string) error {
	for {
		var size, version int64
		if err := s.pool.QueryRow(ctx, readSQL, id).Scan(&size, &version); err != nil {
			return err
		}
		err := s.pool.QueryRow(ctx, casSQL, id, version, size+1).Scan(&version)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
}

func (s *setup) readCAS(ctx context.Context, worker int, _ int64) error {
	defer s.refresh(worker)
	return s.naiveCAS(ctx, docOf(worker))
}

// refresh keeps the version that the other variants know.
func (s *setup) refresh(worker int) { s.docs.versions[worker]++ }

func (s *setup) readSet(ctx context.Context, worker int, _ int64) error {
	defer s.refresh(worker)
	var size int64
	var v optimistic.Version
	if err := s.pool.QueryRow(ctx, readSQL, docOf(worker)).Scan(&size, &v); err != nil {
		return err
	}
	_, err := s.docs.rows.Set(ctx, optimistic.Want{Key: docOf(worker), Version: v}, map[string]any{"size": size + 1})
	return err
}

func (s *setup) hotCAS(ctx context.Context, _ int, _ int64) error { return s.naiveCAS(ctx, "hot") }

func (s *setup) hotEdit(ctx context.Context, _ int, _ int64) error {
	var size int64
	_, err := s.docs.rows.Edit(ctx, optimistic.Want{Key: "hot"}, map[string]any{"size": &size}, func(context.Context, pgx.Tx) (map[string]any, error) {
		return map[string]any{"size": size + 1}, nil
	})
	return err
}

func (s *setup) hotAtCommit(ctx context.Context, _ int, _ int64) error {
	return s.docs.rows.Update(ctx, "hot", func(ctx context.Context, t pgx.Tx) error {
		var size int64
		want := optimistic.Want{Key: "hot"}
		if err := t.QueryRow(ctx, readSQL, "hot").Scan(&size, &want.Version); err != nil {
			return err
		}
		_, err := s.docs.rows.SetAtCommit(ctx, t, want, map[string]any{"size": size + 1})
		return err
	})
}

func (s *setup) hotUpdate(ctx context.Context, _ int, _ int64) error {
	return s.docs.rows.Update(ctx, "hot", func(ctx context.Context, t pgx.Tx) error {
		var size int64
		want := optimistic.Want{Key: "hot"}
		if err := t.QueryRow(ctx, readSQL, "hot").Scan(&size, &want.Version); err != nil {
			return err
		}
		_, err := s.docs.rows.SetTx(ctx, t, want, map[string]any{"size": size + 1})
		return err
	})
}
