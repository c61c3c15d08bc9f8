package idemhttp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep a JSON text may nest, since the parser recurses, and copies what is inside an object once for
// each that it is in: a text that is all depth would cost a thousand times its size.
const maxDepth = 64

// canonicalJSON returns the form of a JSON text that does not depend on the order of members, white space and escapes,
// after RFC 8785. Numbers keep their text, so that 2^53 and 2^53+1 differ, and so do 1 and 1.0: a number that is spelled
// differently may be another one to the handler. It refuses what two parsers may read differently: a member that is
// there twice or in two cases, text that is not UTF-8, half of a surrogate pair.
func canonicalJSON(text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	p := &parser{in: text}
	out, err := p.value(make([]byte, 0, len(text)), 0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.in) {
		return nil, p.unexpected()
	}
	return out, nil
}

type parser struct {
	in []byte
	at int
}

// next returns the byte to read, or 0 at the end.
func (p *parser) next() byte {
	if p.at < len(p.in) {
		return p.in[p.at]
	}
	return 0
}

func (p *parser) space() {
	for p.at < len(p.in) && bytes.IndexByte([]byte(" \t\r\n"), p.in[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.at++
	return true
}

func (p *parser) unexpected() error { return fmt.Errorf("not JSON at byte %d", p.at) }

func (p *parser) value(out []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deep")
	}
	p.space()
	switch p.next() {
	case '{':
		return p.object(out, depth)
	case '[':
		return p.array(out, depth)
	case '"':
		text, err := p.text()
		return appendQuoted(out, text), err
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(p.in[p.at:], []byte(word)) {
			p.at += len(word)
			return append(out, word...), nil
		}
	}
	return p.number(out)
}

func (p *parser) array(out []byte, depth int) (_ []byte, err error) {
	p.at++
	out = append(out, '[')
	if p.space(); p.take(']') {
		return append(out, ']'), nil
	}
	for {
		if out, err = p.value(out, depth+1); err != nil {
			return nil, err
		}
		switch p.space(); {
		case p.take(','):
			out = append(out, ',')
		case p.take(']'):
			return append(out, ']'), nil
		default:
			return nil, p.unexpected()
		}
	}
}

type member struct {
	name  string
	value []byte
}

func (p *parser) object(out []byte, depth int) ([]byte, error) {
	p.at++
	if p.space(); p.take('}') {
		return append(out, "{}"...), nil
	}
	var members []member
	for {
		p.space()
		if p.next() != '"' {
			return nil, p.unexpected()
		}
		name, err := p.text()
		if err != nil {
			return nil, err
		}
		if p.space(); !p.take(':') {
			return nil, p.unexpected()
		}
		value, err := p.value(nil, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, value})
		if p.space(); p.take(',') {
			continue
		}
		if p.take('}') {
			return appendMembers(out, members)
		}
		return nil, p.unexpected()
	}
}

func appendMembers(out []byte, members []member) ([]byte, error) {
	if err := sameByCase(members); err != nil {
		return nil, err
	}
	slices.SortFunc(members, func(a, b member) int { return compareUTF16(a.name, b.name) })
	for i, m := range members {
		if i > 0 && m.name == members[i-1].name {
			return nil, fmt.Errorf("the member %q is there twice", m.name)
		}
		out = append(out, "{,"[min(i, 1)])
		out = appendQuoted(out, m.name)
		out = append(append(out, ':'), m.value...)
	}
	return append(out, '}'), nil
}

// sameByCase refuses names that differ in case alone: encoding/json takes them for one member, of which the last counts, so
// that their order matters.
func sameByCase(members []member) error {
	if !slices.ContainsFunc(members, func(m member) bool { return strings.ContainsFunc(m.name, unfolded) }) {
		return nil
	}
	names := make(map[string]string, len(members))
	for _, m := range members {
		folded := strings.Map(fold, m.name)
		if other, ok := names[folded]; ok {
			return fmt.Errorf("the members %q and %q are one to encoding/json", other, m.name)
		}
		names[folded] = m.name
	}
	return nil
}

func unfolded(r rune) bool { return 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf }

// fold returns the least of the runes that differ from r in case alone.
func fold(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// compareUTF16 is the order of RFC 8785, that of JavaScript.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return slices.Compare(utf16.AppendRune(nil, ra), utf16.AppendRune(nil, rb))
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

// number takes a number as it stands.
func (p *parser) number(out []byte) ([]byte, error) {
	begin := p.at
	p.take('-')
	if !p.take('0') && !p.digits() {
		return nil, p.unexpected()
	}
	if p.take('.') && !p.digits() {
		return nil, p.unexpected()
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if !p.digits() {
			return nil, p.unexpected()
		}
	}
	return append(out, p.in[begin:p.at]...), nil
}

func (p *parser) digits() bool {
	begin := p.at
	for c := p.next(); '0' <= c && c <= '9'; c = p.next() {
		p.at++
	}
	return p.at > begin
}

// text takes a string and resolves its escapes.
func (p *parser) text() (string, error) {
	p.at++
	var out []byte
	for {
		switch c := p.next(); {
		case c < ' ':
			return "", p.unexpected()
		case c == '"':
			p.at++
			return string(out), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
			p.at++
		}
	}
}

func (p *parser) escape() (rune, error) {
	p.at++
	c := p.next()
	if c == 'u' {
		return p.unicode()
	}
	i := bytes.IndexByte([]byte(`"\/bfnrt`), c)
	if i < 0 {
		return 0, p.unexpected()
	}
	p.at++
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

// unicode takes \u and its four hexadecimal digits, or two of those that are a surrogate pair.
func (p *parser) unicode() (rune, error) {
	first, err := p.hex()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	if !p.take('\\') || p.next() != 'u' {
		return 0, errors.New("half of a surrogate pair")
	}
	second, err := p.hex()
	if err != nil {
		return 0, err
	}
	r := utf16.DecodeRune(first, second)
	if r == utf8.RuneError {
		return 0, errors.New("half of a surrogate pair")
	}
	return r, nil
}

func (p *parser) hex() (rune, error) {
	p.at++
	if p.at+4 > len(p.in) {
		return 0, p.unexpected()
	}
	n, err := strconv.ParseUint(string(p.in[p.at:p.at+4]), 16, 16)
	if err != nil {
		return 0, p.unexpected()
	}
	p.at += 4
	return rune(n), nil
}

// appendQuoted escapes what must be escaped, and nothing else.
func appendQuoted(out []byte, text string) []byte {
	out = append(out, '"')
	for i := range len(text) {
		c := text[i]
		if j := bytes.IndexByte([]byte("\"\\\b\f\n\r\t"), c); j >= 0 {
			out = append(out, '\\', `"\bfnrt`[j])
		} else if c < ' ' {
			out = fmt.Appendf(out, `\u%04x`, c)
		} else {
			out = append(out, c)
		}
	}
	return append(out, '"')
}
