package optimistic

import (
	"fmt"
	"net/http"
	"strings"
)

// maxTags and maxHeader bound what a header may ask to be compared.
const (
	maxTags   = 64
	maxHeader = 4096
)

// A tag is an entity tag as it stands in a header, with its quotes.
type tag struct {
	text string
	weak bool
}

// A Condition is what a request says of the version that it is about, by If-Match and If-None-Match. The zero value says
// nothing.
type Condition struct {
	match, none       []tag
	anyMatch, anyNone bool
}

// ParseCondition reads the preconditions of a request, strictly by RFC 9110: lists over several lines, weak tags, and "*" by
// itself. It returns an error that matches [ErrMalformed], status 400, for what cannot be read: a condition that is not
// understood must not count as none.
func ParseCondition(h http.Header) (c Condition, err error) {
	if c.match, c.anyMatch, err = parseTags("If-Match", h); err != nil {
		return Condition{}, err
	}
	if c.none, c.anyNone, err = parseTags("If-None-Match", h); err != nil {
		return Condition{}, err
	}
	return c, nil
}

func parseTags(name string, h http.Header) (tags []tag, star bool, err error) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return nil, false, nil
	}
	text := strings.Join(lines, ",")
	if len(text) > maxHeader {
		return nil, false, fmt.Errorf("%w: %s is longer than %d bytes", ErrMalformed, name, maxHeader)
	}
	if strings.Trim(text, " \t") == "*" {
		return nil, true, nil
	}
	for rest := text; ; {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			break
		}
		var t tag
		if t, rest, err = cutTag(rest); err != nil {
			return nil, false, fmt.Errorf("%w: %s: %s", ErrMalformed, name, err.Error())
		}
		if tags = append(tags, t); len(tags) > maxTags {
			return nil, false, fmt.Errorf("%w: %s has more than %d tags", ErrMalformed, name, maxTags)
		}
		if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != ',' {
			return nil, false, fmt.Errorf("%w: %s: tags are separated by commas", ErrMalformed, name)
		}
	}
	if len(tags) == 0 {
		return nil, false, fmt.Errorf("%w: %s is empty", ErrMalformed, name)
	}
	return tags, false, nil
}

// cutTag cuts one entity tag off: W/ if it is weak, in upper case only, and any characters but quotes and controls in quotes.
func cutTag(text string) (t tag, rest string, err error) {
	t.weak = strings.HasPrefix(text, "W/")
	body := text
	if t.weak {
		body = text[2:]
	}
	if body == "" || body[0] != '"' {
		return t, "", fmt.Errorf("an entity tag stands in double quotes, as in \"7\"")
	}
	end := strings.IndexByte(body[1:], '"')
	if end < 0 {
		return t, "", fmt.Errorf("an entity tag has no closing quote")
	}
	t.text = body[:end+2]
	for _, c := range []byte(t.text[1 : end+1]) {
		if c <= ' ' || c == 0x7f {
			return t, "", fmt.Errorf("an entity tag has a space or a control character")
		}
	}
	return t, body[end+2:], nil
}

// Empty reports whether the request says nothing.
func (c Condition) Empty() bool {
	return len(c.match)+len(c.none) == 0 && !c.anyMatch && !c.anyNone
}

// Creates reports whether the request is to make what is not there yet: If-None-Match: *.
func (c Condition) Creates() bool { return c.anyNone && !c.anyMatch && len(c.match) == 0 }

// Version returns the version that a write under the condition is for: that of an If-Match with one strong tag of ours, [Any]
// for If-Match: *, and otherwise an unset one, which is refused wherever it is used.
func (c Condition) Version() Version {
	if c.anyMatch {
		return Any()
	}
	if len(c.match) != 1 || c.match[0].weak {
		return Version{}
	}
	return c.match[0].version()
}

// version returns the version of a tag that [Version.ETag] made, or an unset one: others' tags are compared, not read.
func (t tag) version() Version {
	if n, ok := parse(t.text[1 : len(t.text)-1]); ok {
		return At(n)
	}
	return Version{}
}

// Evaluate compares the condition with the current version, unset if there is no row, in the order of RFC 9110: If-Match by strong
// comparison, where a weak tag matches nothing; then If-None-Match by weak comparison. It returns 0 if the request may
// go on, and otherwise the status of its answer: 412, or 304 for GET and HEAD. Before a write it saves work and decides
// nothing: another write can come in between.
func (c Condition) Evaluate(method string, current Version) int {
	if c.anyMatch && !current.IsSet() || len(c.match) > 0 && !matches(c.match, current, false) {
		return http.StatusPreconditionFailed
	}
	if c.anyNone && current.IsSet() || len(c.none) > 0 && matches(c.none, current, true) {
		if method == http.MethodGet || method == http.MethodHead {
			return http.StatusNotModified
		}
		return http.StatusPreconditionFailed
	}
	return 0
}

func matches(tags []tag, current Version, weakly bool) bool {
	etag := current.ETag()
	for _, t := range tags {
		if etag != "" && t.text == etag && (weakly || !t.weak) {
			return true
		}
	}
	return false
}
