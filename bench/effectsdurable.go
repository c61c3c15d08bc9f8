package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

type riverArgs struct {
	Key string `json:"key"`
}

func (riverArgs) Kind() string { return "work" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	o order
}

func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	return w.o.work(ctx, job.Args.Key, job.Args.Key)
}

func (w *riverWorker) NextRetry(*river.Job[riverArgs]) time.Time { return time.Now() }

// openRiver inserts a job that is unique by its arguments, and waits until it is completed. What a worker left running is
// rescued after a lease.
func openRiver(ctx context.Context, o order) (func(context.Context, string) error, error) {
	pool, err := o.pool(ctx)
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: silent})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{o: o})
	client, err := river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}, Workers: workers, Logger: silent,
		FetchCooldown: 5 * time.Millisecond,
		JobTimeout:    leaseTime, RescueStuckJobsAfter: leaseTime + time.Second, // which leaves alone what has no timeout
	})
	if err != nil {
		return nil, err
	}
	completed, _ := client.Subscribe(river.EventKindJobCompleted)
	done := newBoard()
	go func() {
		for e := range completed {
			done.post(string(e.Job.EncodedArgs))
		}
	}()
	return func(ctx context.Context, key string) error {
		job, err := client.Insert(ctx, riverArgs{key}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
		if err != nil || job.Job.State == rivertype.JobStateCompleted {
			return err
		}
		return done.await(ctx, string(job.Job.EncodedArgs))
	}, client.Start(ctx)
}

// openDBOS runs a workflow of one step. One that was left is recovered when the next process of the same executor starts.
func openDBOS(ctx context.Context, o order) (func(context.Context, string) error, error) {
	d, err := dbos.NewContext(ctx, dbos.Config{
		DatabaseURL: o.DSN, DatabaseSchema: o.Schema, AppName: "bench", Logger: silent, ApplicationVersion: "1", ExecutorID: "local",
	})
	if err != nil {
		return nil, err
	}
	work := func(d dbos.Context, key string) (string, error) {
		return dbos.RunAsStep(d, func(ctx context.Context) (string, error) { return key, o.work(ctx, key, key) },
			dbos.WithStepName("effect"), dbos.WithStepMaxRetries(5))
	}
	dbos.RegisterWorkflow(d, work, dbos.WithWorkflowName("work"))
	return func(_ context.Context, key string) error {
		h, err := dbos.RunWorkflow(d, work, key, dbos.WithWorkflowID(key))
		if err != nil {
			return err
		}
		_, err = h.GetResult()
		return err
	}, dbos.Launch(d)
}
