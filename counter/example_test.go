package counter_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Seats that are sold once, however often the request comes. The column is one of the caller's own table.
func ExampleNewColumn() {
	var pool *pgxpool.Pool // open, and migrated with counter.Migrate
	seats := counter.NewColumn(pgxtx.New(pool), counter.Column{Table: "event", Key: "id", Column: "seats_left", Max: 1<<31 - 1}, nil)

	http.HandleFunc("POST /events/{id}/tickets", func(w http.ResponseWriter, r *http.Request) {
		_, err := seats.Take(r.Context(), r.PathValue("id"), 2, counter.Once(r.Header.Get("Idempotency-Key")))
		switch {
		case err == nil:
			w.WriteHeader(http.StatusCreated)
		case errors.Is(err, counter.ErrInsufficient):
			http.Error(w, "sold out", http.StatusConflict)
		case errors.Is(err, counter.ErrNotFound), errors.Is(err, counter.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default: // also counter.ErrOutcomeUnknown: the same key may come again
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
}

// Views of a page: concurrent calls share a commit, and each returns after it.
func ExampleCounters_Add() {
	var pool *pgxpool.Pool // open, and migrated with counter.Migrate
	views := counter.New(pgxtx.New(pool), nil)

	view := func(ctx context.Context, page, requestID string) (int64, error) {
		res, err := views.Add(ctx, page, 1, counter.Once(requestID))
		return res.Value, err
	}
	_ = view
}

// A change in the caller's own transaction takes effect with it. It comes last, since its row is locked from then on.
func ExampleCounters_TakeTx() {
	var pool *pgxpool.Pool // open, and migrated with counter.Migrate
	stock := counter.New(pgxtx.New(pool), nil)

	order := func(ctx context.Context, id, item string) error {
		return pgx.BeginFunc(ctx, pool, func(t pgx.Tx) error {
			if _, err := t.Exec(ctx, "insert into purchase (id, item) values ($1, $2)", id, item); err != nil {
				return err
			}
			_, err := stock.TakeTx(ctx, t, item, 1)
			return err // a refusal rolls the order back
		})
	}
	_ = order
}

// Both changes are made, or none, and two calls the other way round do not deadlock. Points may go below 0 here; Take in a
// transaction of the caller's keeps them from it.
func ExampleCounters_AddMany() {
	var pool *pgxpool.Pool // open, and migrated with counter.Migrate
	points := counter.New(pgxtx.New(pool), nil)

	give := func(ctx context.Context, from, to, requestID string) error {
		return points.AddMany(ctx, []counter.Change{{Key: from, N: -10}, {Key: to, N: 10}}, counter.Once(requestID))
	}
	_ = give
}

// A counter that many processes change is spread over rows.
func ExampleCounters_Resize() {
	var pool *pgxpool.Pool // open, and migrated with counter.Migrate
	tickets := counter.New(pgxtx.New(pool), nil)

	open := func(ctx context.Context, concert string) error {
		if _, err := tickets.Add(ctx, concert, 10_000, counter.Once("opening")); err != nil {
			return err
		}
		return tickets.Resize(ctx, concert, 16)
	}
	_ = open
}

// At the end of a service: no new calls, and an answer to each that is under way.
func ExampleCounters_Close() {
	var pool *pgxpool.Pool // open, and migrated with counter.Migrate
	views := counter.New(pgxtx.New(pool), nil)

	shutdown := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := views.Close(ctx)
		pool.Close()
		return err
	}
	_ = shutdown
}
