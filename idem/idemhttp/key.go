package idemhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/idem"
)

// hasKey reports whether a header that may hold a key is there, whatever it holds.
func (m *gate) hasKey(h http.Header) bool {
	for _, name := range m.o.KeyHeaders {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// value returns the key that the client chose.
func (m *gate) value(h http.Header) (string, *Problem) {
	found, in := "", ""
	for _, name := range m.o.KeyHeaders {
		lines := h[name]
		switch {
		case len(lines) == 0:
			continue
		case len(lines) > 1:
			return "", &Problem{
				Status: http.StatusBadRequest, Code: CodeKeyAmbiguous,
				Detail: fmt.Sprintf("The header %s is given %d times: send one key.", name, len(lines)),
			}
		}
		key, err := parseKey(lines[0])
		if err != nil {
			return "", keyInvalid(name, err)
		}
		if in != "" && key != found {
			return "", &Problem{
				Status: http.StatusBadRequest, Code: CodeKeyAmbiguous,
				Detail: fmt.Sprintf("The headers %s and %s hold different keys: send one, or the same in both.", in, name),
			}
		}
		found, in = key, name
	}
	if in == "" {
		return "", &Problem{
			Status: http.StatusBadRequest, Code: CodeKeyMissing,
			Detail: fmt.Sprintf("This request needs the header %s: make a key for each operation, such as a UUID, and send the same one on each retry.", keyHeader),
		}
	}
	return found, nil
}

// maxKey bounds a key, in bytes. A quoted one can take twice as many and two.
const maxKey = 255

// parseKey reads a key as the IETF draft spells it, a quoted string of RFC 8941, or as it stands. Both spellings of a key
// are the same key. Parameters after a quoted string are refused, since nobody knows what they ask for. So is a comma in
// a key without quotes, since proxies join repeated headers with one.
func parseKey(text string) (string, error) {
	if text = strings.Trim(text, " \t"); len(text) > 2*maxKey+2 {
		return "", errLong
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return "", errors.New("may hold printable ASCII only")
		}
	}
	switch quoted, err := strings.HasPrefix(text, `"`), error(nil); {
	case !quoted && strings.ContainsAny(text, `",`):
		return "", errors.New(`must be quoted to hold a comma or a quotation mark, as in "a,b"`)
	case quoted:
		if text, err = unquote(text[1:]); err != nil {
			return "", err
		}
	}
	switch {
	case text == "":
		return "", errors.New("is empty")
	case len(text) > maxKey:
		return "", errLong
	}
	return text, nil
}

var errLong = fmt.Errorf("has more than %d bytes", maxKey)

func unquote(text string) (string, error) {
	var key strings.Builder
	key.Grow(len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' && i+1 < len(text):
			return "", errors.New("has something after the closing quotation mark: parameters are not understood")
		case c == '"':
			return key.String(), nil
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", errors.New(`may escape only \" and \\`)
			}
			key.WriteByte(text[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", errors.New("has no closing quotation mark")
}

// identify returns the key of the request, with its body read and its fingerprint taken.
func (x *exchange) identify() (idem.Key, *Problem) {
	m := x.m
	value, p := m.value(x.r.Header)
	if p != nil {
		return idem.Key{}, p
	}
	scope, err := m.scope(x.r) // an empty one is no key, and refused as such
	if err != nil {
		return idem.Key{}, noScope(err)
	}
	if p := x.read(); p != nil {
		return idem.Key{}, p
	}
	body := x.body
	if len(body) == 0 {
		if body, err = formOf(x.r); err != nil {
			return idem.Key{}, bodyUnreadable(err)
		}
	}
	return idem.Key{Scope: scope, Name: m.o.Name(x.r), Value: value, Fingerprint: fingerprint(x.r, body, m.o.CanonicalJSON)}, nil
}
