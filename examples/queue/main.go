// Command queue shows workers that pull jobs from one table.
//
//	go run ./examples/queue                        SQLite, through its one writer
//	go run ./examples/queue -dsn postgres://…      PostgreSQL, with SKIP LOCKED
//
// The naive worker selects a job that is ready, does it, and marks it done. Two workers select the same one, and both do it.
// With the claim in the transaction that marks it (work/worker.go) each job has one worker, nobody waits for the job of
// another on PostgreSQL, and a worker that dies leaves its jobs to the others:
//
//	n, err := locks.Work(ctx, queue, func(ctx context.Context, t T) error {
//		… // do the jobs, and mark them in t
//	})
//
// Every seventh job fails the first time, and is tried again. What a job does outside the transaction is done again then.
//
// It exits with 1 if a job was done twice or never, and also if the naive worker came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/queue/work"
)

func main() { story.Main(work.Run) }
