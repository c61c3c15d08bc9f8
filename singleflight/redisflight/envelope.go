package redisflight

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// An envelope is what is stored: its format, what is in it, the token of the load, which makes each one different, and the
// content. A lease has a key of its own, so that no value can be taken for one.
const (
	format       = '1'
	kindValue    = 'v'
	kindNotFound = 'n'
	tokenLength  = 26 // of rand.Text
	header       = 2 + tokenLength
)

// A result is what a load came to.
type result[V any] struct {
	value V
	err   error
}

// seal returns the envelope of a result that took so long, and how long to keep it, which is 0 for an error that is not remembered.
func (c *Cache[V]) seal(token string, r result[V], took time.Duration) (envelope []byte, life time.Duration, err error) {
	if r.err != nil {
		if c.o.NotFoundTTL == 0 || !c.o.NotFound(r.err) {
			return nil, 0, nil
		}
		return append([]byte{format, kindNotFound}, token+r.err.Error()...), c.life(c.o.NotFoundTTL, took), nil
	}
	content, err := c.o.Encode(r.value)
	if err != nil {
		return nil, 0, err
	}
	return append(append([]byte{format, kindValue}, token...), content...), c.life(c.o.TTL, took), nil
}

// open returns what is in an envelope.
func (c *Cache[V]) open(envelope string) (r result[V], err error) {
	if len(envelope) < header || envelope[0] != format {
		return r, errFormat
	}
	content := envelope[header:]
	switch envelope[1] {
	case kindNotFound:
		r.err = &notFound{content}
		return r, nil
	case kindValue:
		r.value, err = c.o.Decode([]byte(content))
		return r, err
	}
	return r, errFormat
}

// life is what is left of a TTL after the load: what was read at its beginning may be old at its end. Some is always left, for those
// who wait in other processes to find it. A TTL is shortened, so that what was loaded together does not expire together.
func (c *Cache[V]) life(ttl, took time.Duration) time.Duration {
	least := min(ttl, 2*maxPause)
	if c.o.Jitter > 0 {
		ttl -= time.Duration(float64(ttl) * c.o.Jitter * rand.Float64())
	}
	return max(ttl-took, least, time.Millisecond)
}

// keys are where a key's value and its lease are. The braces choose the slot of a cluster.
type keys struct{ value, lease, digest string }

func (c *Cache[V]) keys(key string) keys {
	sum := sha256.Sum256([]byte(key))
	digest := hex.EncodeToString(sum[:])
	value := c.o.Prefix + "{" + digest + "}"
	return keys{value: value, lease: value + ":lease", digest: digest[:16]}
}
