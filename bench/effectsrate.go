package main

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
)

// effectRates are the ways of the group "effects" undisturbed, with an effect that takes no time: a caller asks for a new key and
// waits until it may be told that it is done. River and NATS hand the work to another goroutine.
var effectRates = group{
	name: "effects-rate", local: true, rounds: 10,
	variants: func(s *setup) (variants []variant) {
		dsn := s.pool.Config().ConnString()
		schema := "holdfast_rates_" + strings.ToLower(rand.Text()[:12])
		s.closers = append(s.closers, func() { _ = execute(context.Background(), dsn, "drop schema if exists "+schema+" cascade") })
		broker := sync.OnceValues(func() (string, error) {
			if err := execute(context.Background(), dsn, "create schema "+schema); err != nil {
				return "", err
			}
			b, stop, err := startNATS()
			if err != nil {
				return "", err
			}
			s.closers = append(s.closers, stop)
			return b.ClientURL(), nil
		})
		for _, w := range waysOf() {
			open := sync.OnceValues(func() (func(context.Context, string) error, error) {
				address, err := broker()
				if err != nil {
					return nil, err
				}
				ctx, stop := context.WithCancel(context.Background())
				s.closers = append(s.closers, stop)
				return w.open(ctx, order{DSN: dsn, Schema: schema, Broker: address})
			})
			variants = append(variants, variant{w.name, func(ctx context.Context, _ int, seq int64) error {
				do, err := open()
				if err != nil {
					return err
				}
				return do(ctx, keyOf(seq))
			}})
		}
		return variants
	},
}
