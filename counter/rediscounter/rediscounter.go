package rediscounter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redisscript"
)

// maxName bounds names and operation IDs, in bytes.
const maxName = 1024

var (
	//go:embed lua/add.lua
	addSource string
	//go:embed lua/take.lua
	takeSource string

	addScript  = redis.NewScript(addSource)
	takeScript = redis.NewScript(takeSource)
)

// Counters are the counters under one prefix. They are safe for concurrent use.
type Counters struct {
	client Client
	o      Options
	err    error // what is wrong with the options
}

// New returns counters. Nil options work. A client that is nil and options that cannot be used are reported by every method.
func New(client Client, o *Options) *Counters {
	c := &Counters{client: client, o: o.withDefaults()}
	c.err = c.o.check()
	return c
}

// Add adds n, which may be negative, and returns the new value. The same operation on the same counter counts once, and
// gets the first result again; an empty one is made up for this call. It returns an [*Error].
func (c *Counters) Add(ctx context.Context, name string, n int64, operation string) (int64, error) {
	return c.change(ctx, "add", addScript, name, n, operation)
}

// Take takes n, above 0, if there is that much, and returns what is left. It returns an [*InsufficientError] or [*Error].
// The same operation on the same counter takes once; an empty one is made up for this call. A refusal is not remembered: the
// same operation may succeed later.
func (c *Counters) Take(ctx context.Context, name string, n int64, operation string) (int64, error) {
	if n <= 0 {
		return 0, refuse("take", fmt.Errorf("%w: the amount to take must be above 0", ErrInvalid))
	}
	return c.change(ctx, "take", takeScript, name, n, operation)
}

// Get returns the value, 0 if there is none. It changes nothing, and returns an [*Error]. A client that reads from replicas
// may get an older value.
func (c *Counters) Get(ctx context.Context, name string) (int64, error) {
	if err := c.check(ctx, name, ""); err != nil {
		return 0, refuse("get", err)
	}
	text, err := c.client.Get(ctx, c.key(name)).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return 0, nil
	case err != nil:
		return 0, refuse("get", reason(err))
	}
	value, ok := parse(text)
	if !ok {
		return 0, refuse("get", ErrNotInteger)
	}
	return value, nil
}

func (c *Counters) change(ctx context.Context, op string, script *redis.Script, name string, n int64, operation string) (int64, error) {
	if err := c.check(ctx, name, operation); err != nil {
		return 0, refuse(op, err)
	}
	key, amount := c.key(name), strconv.FormatInt(n, 10)
	entry, life := c.entry(key, operation)
	reply, err := script.Run(ctx, c.client, []string{key, entry},
		op+" "+amount, amount, c.o.TTL.Milliseconds(), life.Milliseconds()).Slice()
	if err != nil {
		return 0, c.failed(ctx, op, name, err)
	}
	return c.read(ctx, op, name, reply)
}

func (c *Counters) check(ctx context.Context, name, operation string) error {
	switch {
	case c == nil || redisscript.Missing(c.client):
		return fmt.Errorf("%w: there is no client: use New with one", ErrInvalid)
	case c.err != nil:
		return c.err
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalid)
	case len(name) > maxName || len(operation) > maxName:
		return fmt.Errorf("%w: a name or an operation ID has more than %d bytes: hash it", ErrInvalid, maxName)
	}
	return ctx.Err()
}
