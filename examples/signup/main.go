// Command signup shows two requests that create the same user, and two guests that book one room.
//
//	go run ./examples/signup                        SQLite, no server needed
//	go run ./examples/signup -dsn postgres://…      PostgreSQL
//
// Services that look first and insert then make both: two requests that look at the same time both find nothing. Where a
// constraint can decide, nothing else has to (register/register.go):
//
//	_, err := t.Exec(ctx, "insert into member (email) values ($1)", email)
//	if _, taken := tx.UniqueViolation(err); taken {
//		return ErrTaken
//	}
//
// For overlapping bookings PostgreSQL has exclusion constraints, and tx.ExclusionViolation.
//
// It exits with 1 if there are two rows where one is right, and also if the naive way came through.
package main

import (
	"context"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/signup/register"
)

func main() {
	story.Main(func(ctx context.Context, c story.Config) (story.Result, error) {
		r, err := register.Run(ctx, c)
		if err != nil || !r.OK || c.DSN == "" {
			return r, err
		}
		return register.RunOverlaps(ctx, c) // PostgreSQL forbids overlaps too
	})
}
