package idem

import (
	"crypto/sha256"
	"encoding/binary"
)

// A Fingerprint is a digest of a request. A key that comes back with another fingerprint is refused with [ErrMismatch]:
// it is a different request under a used key, not a retry. The zero value means that there is none, and matches all.
type Fingerprint struct {
	version byte
	sum     [sha256.Size]byte
}

// fingerprintV1 is SHA-256 over the parts, each after its length in 8 bytes, big endian.
const fingerprintV1 = 1

// FingerprintOf returns the fingerprint of a request from its parts, such as the amount, the currency and the account,
// or the raw body. Where the parts divide matters: "ab", "c" is not "a", "bc".
func FingerprintOf[P ~string | ~[]byte](parts ...P) Fingerprint {
	h := sha256.New()
	var size [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	f := Fingerprint{version: fingerprintV1}
	h.Sum(f.sum[:0])
	return f
}

// FingerprintJSON returns the fingerprint of the JSON form of v: of a struct with the fields that matter, or of a map,
// whose order does not. It is that of the value in Go, after decoding; it is not that of a body's bytes.
func FingerprintJSON(v any) (Fingerprint, error) {
	text, err := marshalExact(v)
	if err != nil {
		return Fingerprint{}, &KeyError{Part: "Fingerprint", Reason: err.Error()}
	}
	return FingerprintOf(text), nil
}

// bytes returns what is stored: the version of the algorithm, then the digest.
func (f Fingerprint) bytes() []byte {
	if f.version == 0 {
		return []byte{}
	}
	return append([]byte{f.version}, f.sum[:]...)
}

// matches reports whether a stored fingerprint may be that of the same request.
func (f Fingerprint) matches(stored []byte) bool {
	return f.version == 0 || len(stored) == 0 || stored[0] == f.version && string(stored[1:]) == string(f.sum[:])
}
