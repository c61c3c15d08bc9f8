package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/valyala/fasthttp"
)

// A way is a product, or a habit, that is said to do a thing once.
type way struct {
	name string
	// open makes it ready in a process of its own. do does what a key is for, or finds that it is done, and returns when its
	// client may be told so.
	open func(ctx context.Context, o order) (do func(ctx context.Context, key string) error, err error)
}

func waysOf() []way {
	return []way{
		{"by hand: insert the key, act, update it", openByHand},
		{"watermill deduplicator (process memory)", openWatermill},
		{"fiber idempotency (process memory)", openFiber},
		{"NATS JetStream, message ID", openNATS},
		{"River, unique by arguments", openRiver},
		{"DBOS, workflow ID", openDBOS},
		{"idem.DoLeased, the effect in a step", openOurs},
	}
}

// openByHand claims with an insert, and takes over what is older than a lease.
func openByHand(ctx context.Context, o order) (func(context.Context, string) error, error) {
	pool, err := o.pool(ctx)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, `create table if not exists op (k text primary key, done boolean not null default false, since timestamptz not null default now())`)
	return func(ctx context.Context, key string) error {
		tag, err := pool.Exec(ctx, `insert into op (k) values ($1)
			on conflict (k) do update set since = now() where not op.done and op.since < now() - make_interval(secs => $2)`, key, leaseTime.Seconds())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			var done bool
			err := pool.QueryRow(ctx, `select done from op where k = $1`, key).Scan(&done)
			if err == nil && !done {
				return errors.New("it is being done")
			}
			return err
		}
		if err := o.work(ctx, key, key); err != nil {
			_, free := pool.Exec(ctx, `delete from op where k = $1`, key)
			return errors.Join(err, free)
		}
		_, err = pool.Exec(ctx, `update op set done = true where k = $1`, key)
		return err
	}, err
}

// openWatermill has the middleware around a handler. An error is what a bus delivers again for, as the clients do here.
func openWatermill(_ context.Context, o order) (func(context.Context, string) error, error) {
	handle := (&middleware.Deduplicator{KeyFactory: middleware.NewMessageHasherFromMetadataField("key"), Timeout: time.Second}).Middleware(
		func(m *message.Message) ([]*message.Message, error) {
			key := m.Metadata.Get("key")
			return nil, o.work(m.Context(), key, key)
		})
	return func(_ context.Context, key string) error {
		m := message.NewMessage(watermill.NewUUID(), nil)
		m.Metadata.Set("key", key)
		_, err := handle(m)
		return err
	}, nil
}

func openFiber(_ context.Context, o order) (func(context.Context, string) error, error) {
	app := fiber.New()
	app.Use(idempotency.New(idempotency.Config{
		KeyHeader: "Idempotency-Key", KeyHeaderValidate: func(string) error { return nil }, Lifetime: time.Hour,
	}))
	app.Post("/", func(c fiber.Ctx) error {
		key := c.Get("Idempotency-Key")
		return o.work(c, key, key)
	})
	h := app.Handler()
	return func(_ context.Context, key string) error {
		var request fasthttp.Request
		request.Header.SetMethod("POST")
		request.SetRequestURI("/")
		request.Header.Set("Idempotency-Key", key)
		var c fasthttp.RequestCtx
		c.Init(&request, nil, nil)
		h(&c)
		if c.Response.StatusCode() != 200 {
			return fmt.Errorf("fiber: got %d", c.Response.StatusCode())
		}
		return nil
	}, nil
}

// openNATS has a stream that drops a message whose ID it has seen, and a consumer that acknowledges after the work.
func openNATS(ctx context.Context, o order) (func(context.Context, string) error, error) {
	conn, err := nats.Connect(o.Broker)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: o.Schema, Subjects: []string{o.Schema}, Duplicates: time.Minute})
	if err != nil {
		return nil, err
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy, AckWait: leaseTime})
	if err != nil {
		return nil, err
	}
	acked := newBoard()
	_, err = consumer.Consume(func(m jetstream.Msg) {
		go func() {
			key := string(m.Data())
			if o.work(ctx, key, key) != nil {
				_ = m.Nak()
				return
			}
			if m.DoubleAck(ctx) == nil {
				acked.post(key)
			}
		}()
	})
	return func(ctx context.Context, key string) error {
		if _, err := js.Publish(ctx, o.Schema, []byte(key), jetstream.WithMsgID(key)); err != nil {
			return err
		}
		return acked.await(ctx, key)
	}, err
}

// A board says which keys are done.
type board struct {
	mu   sync.Mutex // guards done
	done map[string]chan struct{}
}

func newBoard() *board { return &board{done: map[string]chan struct{}{}} }

func (b *board) of(key string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done[key] == nil {
		b.done[key] = make(chan struct{})
	}
	return b.done[key]
}

// post says that a key is done, which may be said again.
func (b *board) post(key string) {
	c := b.of(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

func (b *board) await(ctx context.Context, key string) error {
	select {
	case <-b.of(key):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
