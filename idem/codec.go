package idem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A Codec seals answers before they are stored, and opens them for a repetition: [AESGCM] encrypts them. It is safe for
// concurrent use. Options.Codecs takes several, so that a secret can be changed.
//
// Seal runs in the transaction of the operation, which stays open meanwhile, and Open on every replay: a codec that asks a
// key service should keep what it gets. Both may work in place: what they turn is theirs.
type Codec interface {
	// ID is stored with each answer that the codec sealed, and finds the codec to open it: a number from 16 to 32767, the
	// same in all processes, never used again for another codec or secret.
	ID() int
	// Seal returns what to store of plain. bound is a digest of the key and its fingerprint: authenticate it, as associated
	// data. scope is that of the key, for a codec with a secret for each tenant. After an error the operation rolls back.
	Seal(ctx context.Context, scope string, plain, bound []byte) (sealed []byte, err error)
	// Open is the reverse of Seal. It returns an error unless sealed is what Seal made for the same scope and bound.
	Open(ctx context.Context, scope string, sealed, bound []byte) (plain []byte, err error)
}

// The IDs of codecs. Those below are for how a body is encoded.
const (
	minCodec = 16
	maxCodec = math.MaxInt16
)

// codecs are those of Options.Codecs.
type codecs struct {
	first int // seals, if it is not 0
	byID  map[int]Codec
}

func newCodecs(list []Codec) (codecs, error) {
	c := codecs{byID: map[int]Codec{}}
	for i, codec := range list {
		if codec == nil {
			return codecs{}, fmt.Errorf("idem: Options.Codecs: number %d is nil: look at the error of what made it", i+1)
		}
		id := codec.ID()
		switch {
		case id < minCodec || id > maxCodec:
			return codecs{}, fmt.Errorf("idem: Options.Codecs: ID %d is not from %d to %d", id, minCodec, maxCodec)
		case c.byID[id] != nil:
			return codecs{}, fmt.Errorf("idem: Options.Codecs: two have the ID %d: give each secret an ID of its own", id)
		case i == 0:
			c.first = id
		}
		c.byID[id] = codec
	}
	return c, nil
}

// seal seals what is to be stored of e, beside the fingerprint fp. An answer that is not retained has nothing to seal.
func (k *core) seal(ctx context.Context, c *call, fp []byte, e entry) (entry, error) {
	if k.codecs.first == 0 || e.codec == codecNone {
		return e, nil
	}
	b := bindTo(c.digest, fp)
	sealed, err := k.codecs.byID[k.codecs.first].Seal(ctx, c.key.Scope, wrap(e, b), b[:])
	if err != nil {
		return entry{}, fmt.Errorf("%w: codec %d does not seal it: %w", ErrResult, k.codecs.first, err)
	}
	e.codec, e.stored = k.codecs.first, sealed
	return e, nil
}

// open returns the answer in the row that c has found, which stays as it is.
func (k *core) open(ctx context.Context, c *call) (entry, error) {
	e := c.row.entry
	if e.codec <= codecJSON {
		return e, nil
	}
	codec := k.codecs.byID[e.codec]
	if codec == nil {
		return entry{}, fmt.Errorf("%w: it was sealed with codec %d: keep that in Options.Codecs until its last answer has expired", ErrResult, e.codec)
	}
	b := bindTo(c.digest, c.row.fp)
	plain, err := codec.Open(ctx, c.key.Scope, bytes.Clone(e.body), b[:]) // it may open in place
	if err == nil {
		e, err = unwrap(e, plain, b)
	}
	if err != nil {
		return entry{}, fmt.Errorf("%w: codec %d does not open it: the secret is not that of its ID, or the row was changed: %w", ErrResult, c.row.codec, err)
	}
	return e, nil
}

// binding is what a sealed answer is bound to.
type binding [sha256.Size]byte

func bindTo(d ID, fp []byte) binding { return sha256.Sum256(append(d[:], fp...)) }

// What is sealed is an envelope, in front of the body: its version, the state, how the body is encoded, the status in 8
// bytes, big endian, and the binding. With that, columns that were changed do not make another answer of the same bytes,
// and a codec that does not authenticate anything, say one that compresses, cannot be made to open the row of another key.
const (
	envelopeV1   = 1
	envelopeSize = 3 + 8 + len(binding{})
)

func wrap(e entry, b binding) []byte {
	text := make([]byte, 0, envelopeSize+len(e.stored))
	text = append(text, envelopeV1, byte(e.state), byte(e.codec))
	text = binary.BigEndian.AppendUint64(text, uint64(e.status)) //nolint:gosec // unwrap turns it back
	return append(append(text, b[:]...), e.stored...)
}

// unwrap returns the answer of an envelope from a row with the columns of e.
func unwrap(e entry, text []byte, b binding) (entry, error) {
	if len(text) < envelopeSize || text[0] != envelopeV1 {
		return entry{}, errors.New("not an envelope of a version that is known")
	}
	state, codec, status := int(text[1]), int(text[2]), binary.BigEndian.Uint64(text[3:])
	switch {
	case binding(text[11:envelopeSize]) != b:
		return entry{}, errors.New("the answer of another key")
	case state != e.state || status != uint64(e.status): //nolint:gosec // see wrap
		return entry{}, errors.New("not the state and status of the row")
	case codec != codecJSON && (codec != codecBytes || state != stateCompleted):
		return entry{}, errors.New("an unknown encoding")
	}
	return entry{state: e.state, codec: codec, status: e.status, body: text[envelopeSize:]}, nil
}
