package idem

// core is what keys of both modes share: how a call is judged, how an answer is sealed and given, and how calls of one process
// take part in each other's.
type core struct {
	o       Options
	seen    *recent // nil without
	cache   *cache
	codecs  codecs
	flights flights
	err     error // of the options
}
