package cashier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// An Order is what a customer pays for.
type Order struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"` // in cents
}

// A Charge is what the provider took from a card.
type Charge struct {
	ID     string `json:"id"`
	Order  string `json:"order"`
	Amount int64  `json:"amount"`
}

// What is known of a charge that was asked for.
var (
	// ErrNoCharge: the provider knows of none.
	ErrNoCharge = errors.New("there is no such charge")
	// ErrPending: the provider is at it.
	ErrPending = errors.New("the charge is being made")
)

// A Provider charges cards, over a network, in a database of its own: no transaction of ours covers it.
type Provider interface {
	// Charge charges an order. It does so once for a key, for as long as the provider remembers keys; an empty key is none.
	// An error says nothing about whether the card was charged.
	Charge(ctx context.Context, key string, o Order) (Charge, error)
	// Find returns the charge that was asked for with a key, or ErrNoCharge, or ErrPending.
	Find(ctx context.Context, key string) (Charge, error)
}

// Remote is a provider that is reached by HTTP.
type Remote struct {
	URL    string
	Client *http.Client
}

// Charge posts to /charges.
func (p Remote) Charge(ctx context.Context, key string, o Order) (Charge, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Charge{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/charges", bytes.NewReader(body))
	if err != nil {
		return Charge{}, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return p.ask(r)
}

// Find gets /charges.
func (p Remote) Find(ctx context.Context, key string) (Charge, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/charges?key="+url.QueryEscape(key), nil)
	if err != nil {
		return Charge{}, err
	}
	return p.ask(r)
}

func (p Remote) ask(r *http.Request) (c Charge, err error) {
	res, err := p.Client.Do(r)
	if err != nil {
		return c, err
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return c, json.NewDecoder(res.Body).Decode(&c)
	case http.StatusNotFound:
		return c, ErrNoCharge
	case http.StatusAccepted, http.StatusConflict:
		return c, ErrPending
	}
	return c, fmt.Errorf("the provider answered %d", res.StatusCode)
}
