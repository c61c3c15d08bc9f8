package redislease

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// mark is a text with its length before it: the scripts compare nonces by it, since none begins with another.
func mark(text string) string { return strconv.Itoa(len(text)) + ":" + text + " " }

// unmark reads what mark wrote, and returns what comes after it. Of anything else it returns nothing.
func unmark(marked string) (text, after string) {
	length, marked, _ := strings.Cut(marked, ":")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(marked) {
		return "", ""
	}
	return marked[:n], strings.TrimPrefix(marked[n:], " ")
}

// said reads what a holder says of itself from "state nonce holder meta name". Nobody holds what was released: that says "- nonce
// release name".
func said(text string) (holder, meta, name string) {
	state, text, _ := strings.Cut(text, " ")
	_, text = unmark(text) // the nonce
	holder, text = unmark(text)
	if state == "-" {
		name, _ = unmark(text)
		return "", "", name
	}
	meta, text = unmark(text)
	name, _ = unmark(text)
	return holder, meta, name
}

// holding reads a lease: see acquire.lua. Its token is the time when it was acquired, unless the clock was behind.
func holding(text string) (h lease.Holding, ok bool) {
	if len(text) < 54 {
		return h, false
	}
	h.Token, _ = strconv.ParseInt(text[:16], 10, 64)
	until, err := strconv.ParseInt(text[17:33], 10, 64)
	h.Holder, h.Meta, h.Name = said(text[51:])
	h.Since, h.Until = time.UnixMicro(h.Token), time.UnixMicro(until)
	h.Resigning, h.Released = text[51] == '!', text[51] == '-'
	return h, err == nil && h.Token > 0
}
