package rediscounter

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// attempts is how long a made-up operation is remembered. It is there for the client's own retries, which with its default
// settings are over within a minute.
const attempts = 10 * time.Minute

// key is where a counter is. The braces choose the slot of a cluster, so a name, which may have braces, is not in them.
func (c *Counters) key(name string) string { return c.o.Prefix + "{" + digest(name) + "}" }

// entry returns where an operation on the counter with this key is remembered, and for how long.
func (c *Counters) entry(key, operation string) (string, time.Duration) {
	if operation == "" {
		return key + ":made:" + rand.Text(), min(attempts, c.o.Retention)
	}
	return key + ":op:" + digest(operation), c.o.Retention
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
