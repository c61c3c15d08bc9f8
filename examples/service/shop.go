package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

//go:embed schema
var files embed.FS

var schema, _ = fs.Sub(files, "schema")

// A shop sells the seats of events. Each field is one pattern.
type shop struct {
	keys     *idem.Keys[Tx]           // a purchase that is sent twice happens once
	payments *idem.Inbox[Tx]          // a message that is delivered twice counts once
	stock    *counter.Counters[Tx]    // no seat is sold twice
	events   *optimistic.Rows[Tx]     // no edit overwrites another
	buying   *idemhttp.Middleware[Tx] // keys over HTTP
}

func newShop(db *tx.DB[Tx], o holdfast.Observer) *shop {
	s := &shop{
		keys:     idem.New(db, &idem.Options{Observer: o}),
		payments: idem.NewInbox(db, "payments", &idem.InboxOptions{Observer: o}),
		stock:    counter.NewColumn(db, counter.Column{Table: "event", Key: "id", Column: "seats_left"}, &counter.Options{Observer: o}),
		events:   optimistic.New(db, optimistic.Table{Name: "event"}, &optimistic.Options{Observer: o}),
	}
	s.buying = idemhttp.New(s.keys, customer, nil)
	return s
}

// check finds out at the start whether the tables are there and the database takes writes.
func (s *shop) check(ctx context.Context) error {
	return errors.Join(s.buying.Check(ctx), s.payments.Check(ctx), s.stock.Check(ctx), s.events.Check(ctx))
}

// sweepers remove what is past its time, until their context ends.
func (s *shop) sweepers() []func(context.Context, time.Duration) error {
	return []func(context.Context, time.Duration) error{s.keys.SweepEvery, s.payments.SweepEvery, s.stock.SweepEvery}
}

// close waits for what is under way outside the requests: changes of counters that share a commit.
func (s *shop) close(ctx context.Context) error { return s.stock.Close(ctx) }

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /events/{id}/tickets", s.buying.Handler(s.buy))
	mux.HandleFunc("PUT /events/{id}", s.edit)
	mux.HandleFunc("POST /payments", s.paid)
	return http.MaxBytesHandler(mux, 1<<20)
}

// customer is whose keys those of a request are: in a service with a login, the account, never a header that anybody can set.
func customer(*http.Request) (string, error) { return "everybody", nil }

// buy sells seats, once for each Idempotency-Key. The ticket, the seats and the response are one commit. The row that many
// want comes last, so that it is locked for the shortest time.
func (s *shop) buy(w http.ResponseWriter, r *http.Request, t Tx) error {
	var order struct {
		Buyer string `json:"buyer"`
		Seats int64  `json:"seats"`
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Buyer == "" || order.Seats < 1 {
		http.Error(w, "buyer and seats are needed", http.StatusBadRequest)
		return nil
	}
	var ticket int64
	const insert = `insert into ticket (event, buyer, seats) values ($1, $2, $3) returning id`
	if err := t.QueryRowContext(r.Context(), insert, r.PathValue("id"), order.Buyer, order.Seats).Scan(&ticket); err != nil {
		return err
	}
	switch _, err := s.stock.TakeTx(r.Context(), t, r.PathValue("id"), order.Seats); {
	case errors.Is(err, counter.ErrInsufficient):
		http.Error(w, "sold out", http.StatusConflict) // undoes the ticket and frees the key: there may be seats later
		return nil
	case errors.Is(err, counter.ErrNotFound):
		http.Error(w, "no such event", http.StatusNotFound)
		return nil
	case err != nil:
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	return json.NewEncoder(w).Encode(map[string]any{"ticket": ticket, "seats": order.Seats})
}

// edit makes an event (If-None-Match: *) or changes the version that the client has seen (If-Match: its ETag).
func (s *shop) edit(w http.ResponseWriter, r *http.Request) {
	var event struct {
		Title string `json:"title"`
		Seats uint32 `json:"seats"`
	}
	cond, err := optimistic.ParseCondition(r.Header)
	if optimistic.Refuse(w, err) {
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil || event.Title == "" {
		http.Error(w, "a title is needed", http.StatusBadRequest)
		return
	}
	values := map[string]any{"title": event.Title}
	if cond.Creates() {
		values["seats_left"] = event.Seats // later the stock alone changes it
	}
	version, created, err := s.events.Put(r.Context(), optimistic.Want{Key: r.PathValue("id")}, cond, optimistic.PlainRefuse, values)
	switch {
	case optimistic.Refuse(w, err): // 412 with the current ETag, 428 without a condition
		return
	case err != nil:
		http.Error(w, "not saved: try again", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("ETag", version.ETag())
	if created {
		w.WriteHeader(http.StatusCreated)
	}
}

// paid takes messages of the payment provider, who sends each until it gets a 2xx. Verify its signature before.
func (s *shop) paid(w http.ResponseWriter, r *http.Request) {
	var message struct {
		ID     string `json:"id"`
		Ticket int64  `json:"ticket"`
	}
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		http.Error(w, "not a message", http.StatusBadRequest)
		return
	}
	_, err := s.payments.Do(r.Context(), message.ID, func(ctx context.Context, t Tx) error {
		_, err := t.ExecContext(ctx, `update ticket set paid = true where id = $1`, message.Ticket)
		return err
	})
	switch {
	case errors.Is(err, idem.ErrKeyInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, "send it again", http.StatusServiceUnavailable)
	}
}
