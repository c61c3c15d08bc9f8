package redislease

import (
	"strconv"
	"strings"
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

// said reads what a holder says of itself from "state nonce holder meta name". Nobody holds what was released.
func said(text string) (holder, meta string) {
	state, text, _ := strings.Cut(text, " ")
	if state == "-" {
		return "", ""
	}
	_, text = unmark(text) // the nonce
	holder, text = unmark(text)
	meta, _ = unmark(text)
	return holder, meta
}
