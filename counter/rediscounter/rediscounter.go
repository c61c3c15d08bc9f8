package rediscounter

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events. Name is [Options].Name, Key a digest of the counter's name.
const (
	// EventReplayed: an operation had been done before, and got its first result.
	EventReplayed holdfast.EventKind = "rediscounter.replayed"
	// EventInsufficient: there was less than was to be taken.
	EventInsufficient holdfast.EventKind = "rediscounter.insufficient"
	// EventExpiryRepaired: a counter had lost its expiry, and has one again.
	EventExpiryRepaired holdfast.EventKind = "rediscounter.expiry_repaired"
)

// maxName bounds names and operation IDs, in bytes.
const maxName = 1024

// Options set up [Counters]. The zero value is ready to use.
type Options struct {
	// Name is the Name of events. Default: "counter".
	Name string
	// Observer is told of events. Default: silent.
	Observer holdfast.Observer
	// Prefix begins all keys. It must have no brace. Default: "counter:".
	Prefix string
	// Retention is how long an operation is remembered. Default: 24 hours.
	Retention time.Duration
	// TTL is the life of a counter from its first change; later ones do not prolong it. Default: 0, which is for ever.
	TTL time.Duration
}

// Client is what go-redis' Client, ClusterClient and UniversalClient have.
type Client interface {
	redis.Scripter
	Get(ctx context.Context, key string) *redis.StringCmd
}

// Counters are the counters under one prefix. They are safe for concurrent use.
type Counters struct {
	client Client
	o      Options
	err    error
}

// New returns counters. Nil options work. Options that cannot be used are reported by every method.
func New(client Client, o *Options) *Counters {
	c := &Counters{client: client}
	if o != nil {
		c.o = *o
	}
	c.o.Name = cmp.Or(c.o.Name, "counter")
	c.o.Prefix = cmp.Or(c.o.Prefix, "counter:")
	c.o.Retention = cmp.Or(c.o.Retention, 24*time.Hour)
	switch {
	case client == nil:
		c.err = fmt.Errorf("%w: the client is nil", ErrInvalid)
	case strings.ContainsAny(c.o.Prefix, "{}"):
		c.err = fmt.Errorf("%w: Options.Prefix has a brace, which would choose the slot of the cluster", ErrInvalid)
	case c.o.Retention < time.Millisecond, c.o.TTL < 0, c.o.TTL > 0 && c.o.TTL < time.Millisecond:
		c.err = fmt.Errorf("%w: Options.Retention and Options.TTL must be 1ms at least", ErrInvalid)
	}
	return c
}

var (
	//go:embed lua/add.lua
	addSource string
	//go:embed lua/take.lua
	takeSource string

	addScript  = redis.NewScript(addSource)
	takeScript = redis.NewScript(takeSource)
)

// Add adds n, which may be negative, and returns the new value. The same operation on the same counter counts once; an
// empty one is made up. It returns an [*Error].
func (c *Counters) Add(ctx context.Context, name string, n int64, operation string) (int64, error) {
	return c.change(ctx, "add", addScript, name, n, operation)
}

// Take takes n, above 0, if there is that much, and returns what is left. It returns an [*InsufficientError] or [*Error].
// A refusal is not remembered: the same operation may succeed later.
func (c *Counters) Take(ctx context.Context, name string, n int64, operation string) (int64, error) {
	if n <= 0 {
		return 0, refuse("take", fmt.Errorf("%w: the amount must be above 0", ErrInvalid))
	}
	return c.change(ctx, "take", takeScript, name, n, operation)
}

// Get returns the value, 0 if there is none. It returns an [*Error].
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
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, refuse("get", ErrNotInteger)
	}
	return value, nil
}

func (c *Counters) check(ctx context.Context, name, operation string) error {
	switch {
	case c.err != nil:
		return c.err
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalid)
	case len(name) > maxName || len(operation) > maxName:
		return fmt.Errorf("%w: a name or an operation ID has more than %d bytes: hash it", ErrInvalid, maxName)
	}
	return ctx.Err()
}

func (c *Counters) key(name string) string { return c.o.Prefix + "{" + digest(name) + "}" }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (c *Counters) change(ctx context.Context, op string, script *redis.Script, name string, n int64, operation string) (int64, error) {
	if err := c.check(ctx, name, operation); err != nil {
		return 0, refuse(op, err)
	}
	key := c.key(name)
	entry := key + ":made:" + rand.Text()
	if operation != "" {
		entry = key + ":op:" + digest(operation)
	}
	amount := strconv.FormatInt(n, 10)
	reply, err := script.Run(ctx, c.client, []string{key, entry},
		op+" "+amount, amount, c.o.TTL.Milliseconds(), c.o.Retention.Milliseconds()).Slice()
	if err != nil {
		return 0, &Error{Op: op, err: err, outcome: c.outcome(err)}
	}
	return c.read(ctx, op, name, reply)
}

func (c *Counters) read(ctx context.Context, op, name string, reply []any) (int64, error) {
	if len(reply) != 3 {
		return 0, &Error{Op: op, err: fmt.Errorf("the server answered %v", reply)}
	}
	status, _ := reply[0].(string)
	text, _ := reply[1].(string)
	switch status {
	case "mismatch":
		return 0, refuse(op, ErrMismatch)
	case "refused":
		return 0, refuse(op, reason(errors.New(text)))
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if status == "insufficient" {
		if err != nil {
			return 0, refuse(op, ErrNotInteger)
		}
		refused := &InsufficientError{Have: value}
		c.observe(ctx, EventInsufficient, name, refused)
		return 0, refused
	}
	if err != nil {
		return 0, &Error{Op: op, err: err}
	}
	if status == "replayed" {
		c.observe(ctx, EventReplayed, name, nil)
	}
	if reply[2] == int64(1) {
		c.observe(ctx, EventExpiryRepaired, name, nil)
	}
	return value, nil
}

func (c *Counters) observe(ctx context.Context, kind holdfast.EventKind, name string, err error) {
	holdfast.Observe(ctx, c.o.Observer, holdfast.Event{Kind: kind, Name: c.o.Name, Key: digest(name)[:16], Err: err})
}

func refuse(op string, err error) *Error {
	return &Error{Op: op, err: err, outcome: holdfast.NotApplied}
}

// reason names what a reply means. Redis has no codes for two of them.
func reason(err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE"):
		return ErrWrongType
	case strings.Contains(text, "would overflow"):
		return ErrOverflow
	case strings.Contains(text, "not an integer"):
		return ErrNotInteger
	}
	return err
}

// outcome tells what an error of the client proves. It is that of the last attempt: unless the client makes only one, an
// earlier one may have been sent, and a failed dial proves nothing.
func (c *Counters) outcome(err error) holdfast.Outcome {
	client, ok := c.client.(*redis.Client)
	if !ok || client.Options().MaxRetries != 0 {
		return holdfast.Unknown
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return holdfast.NotApplied
	}
	return holdfast.Unknown
}
