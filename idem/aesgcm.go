package idem

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// secretSize makes it AES-256.
const secretSize = 32

// AESGCM returns a codec that encrypts with AES-256-GCM: a random nonce for each answer, and the key and its fingerprint as
// associated data, so that an answer which was changed, or copied to another row, does not open. secret is 32 random bytes,
// not a password; any other length is an error. It hides the answer, not its length nor the other columns.
//
// One secret is good for 2^32 answers, since nonces are random: for 50 days at a thousand a second. To change it, put a
// codec with a new ID and a new secret in front, when all processes know it as a second: they can then open what the
// first to be changed seals. Keep the old one behind it until the last answer that it sealed has expired.
func AESGCM(id int, secret []byte) (Codec, error) {
	if len(secret) != secretSize {
		return nil, fmt.Errorf("idem: the secret of AESGCM has %d bytes: it takes %d random ones", len(secret), secretSize)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("idem: AESGCM: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("idem: AESGCM: %w", err)
	}
	return &aesGCM{id: id, aead: aead}, nil
}

type aesGCM struct {
	id   int
	aead cipher.AEAD // stores its nonce in front
}

func (a *aesGCM) ID() int { return a.id }

func (a *aesGCM) Seal(_ context.Context, _ string, plain, bound []byte) ([]byte, error) {
	return a.aead.Seal(nil, nil, plain, bound), nil
}

func (a *aesGCM) Open(_ context.Context, _ string, sealed, bound []byte) ([]byte, error) {
	return a.aead.Open(nil, nil, sealed, bound)
}
