package redisflight

import "context"

// leading is a load under a lease, and the one that it is part of.
type leading struct {
	token string
	outer *leading
}

type leadingKey struct{}

func leadingOf(ctx context.Context) *leading {
	l, _ := ctx.Value(leadingKey{}).(*leading)
	return l
}

// leads reports whether ctx is that of the load of the token, which would wait for itself. The group sees most of these, but not
// once the flight was forgotten.
func leads(ctx context.Context, token string) bool {
	for l := leadingOf(ctx); l != nil; l = l.outer {
		if l.token == token {
			return true
		}
	}
	return false
}
