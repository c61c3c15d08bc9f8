package idem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxPart bounds each part of a key, in bytes. Hash what is longer, or use [Derive].
const maxPart = 255

// A Key names one logical operation. Two calls with equal keys are the same operation, whatever else they carry.
type Key struct {
	// Scope is whose key it is: the tenant, account or caller, as your own authentication tells it, never as the
	// request claims. Nobody reads another scope's answers, whatever value they guess. Required.
	Scope string
	// Name is the operation, such as "charge" or "POST /payments". Required.
	Name string
	// Value is what the caller chose, such as the Idempotency-Key header, or a business key, such as the ID of a
	// provider's event. Required.
	Value string
	// Fingerprint, if it is set, tells whether a repeated key comes with the same request. See [FingerprintOf].
	Fingerprint Fingerprint
}

// An ID is what a key is stored under: a digest of its scope, name and value, which tells nothing of the value.
type ID [sha256.Size]byte

// ID returns the ID of k: fixed in width, without a separator that a part could contain, and without the value, which can be a
// secret. It is that of every key with the same scope, name and value, whatever else they carry.
func (k Key) ID() ID {
	h := sha256.New()
	var size [8]byte
	for _, part := range []string{k.Scope, k.Name, k.Value} {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	var d ID
	h.Sum(d[:0])
	return d
}

// String is the whole of it, in hex.
func (d ID) String() string { return hex.EncodeToString(d[:]) }

// short is the ID for events and logs.
func (d ID) short() string { return hex.EncodeToString(d[:8]) }

// lock are the bits of the digest that go into the number of the advisory lock.
func (d ID) lock() int64 {
	return int64(binary.BigEndian.Uint64(d[:])) //nolint:gosec // the bits are all that matters
}

func (k Key) validate() error {
	for _, part := range []struct{ name, text string }{{"Scope", k.Scope}, {"Name", k.Name}, {"Value", k.Value}} {
		if err := validatePart(part.name, part.text); err != nil {
			return err
		}
	}
	return nil
}

func validatePart(name, text string) error {
	switch {
	case text == "":
		return &KeyError{Part: name, Reason: "is empty"}
	case len(text) > maxPart:
		return &KeyError{Part: name, Reason: fmt.Sprintf("has %d bytes, at most %d are allowed: %s", len(text), maxPart, shorten(name))}
	case !utf8.ValidString(text):
		return &KeyError{Part: name, Reason: "is not valid UTF-8: encode it, for example in hex"}
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return &KeyError{Part: name, Reason: "contains a control character"}
	}
	return nil
}

// shorten says how. Only the value of a key can be derived.
func shorten(part string) string {
	if part == "Value" {
		return "hash it or use Derive"
	}
	return "give a hash of it"
}
