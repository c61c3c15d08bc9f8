package story

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/tx"
)

// crashes is how often a server is killed under one load.
const crashes = 3

// kind is how a server is made on each engine.
type kind struct {
	onSQLite   func(*tx.DB[*sql.Tx]) http.Handler
	onPostgres func(*tx.DB[pgx.Tx]) http.Handler
}

var kinds = map[string]kind{}

// RegisterServer names a server, so that a process of the same binary can be it. A generic constructor f is given as
// f[*sql.Tx], f[pgx.Tx].
func RegisterServer(name string, onSQLite func(*tx.DB[*sql.Tx]) http.Handler, onPostgres func(*tx.DB[pgx.Tx]) http.Handler) {
	kinds[name] = kind{onSQLite, onPostgres}
}

// handler opens the database for the named server.
func (p Place) handler(ctx context.Context, name string) (http.Handler, func(), error) {
	if !p.isPostgres() {
		db, closeDB, err := p.openSQLite()
		if err != nil {
			return nil, nil, err
		}
		return kinds[name].onSQLite(db), closeDB, nil
	}
	db, closeDB, err := p.openPostgres(ctx)
	if err != nil {
		return nil, nil, err
	}
	return kinds[name].onPostgres(db), closeDB, nil
}

// A Server is what a load runs against.
type Server struct {
	// Address is where it listens, as host:port.
	Address string

	answers atomic.Int64
	kills   atomic.Int64
	crash   chan time.Duration      // receives how long to wait before a kill
	moments map[int64]time.Duration // the same by number of answers; read only
}

// URL is where it answers.
func (s *Server) URL() string { return "http://" + s.Address }

// Kills is how often it was killed.
func (s *Server) Kills() int { return int(s.kills.Load()) }

// Answered counts an answer that a client got. The moments of the kills are set in answers, so that they fall into the
// middle of the load on fast and slow machines.
func (s *Server) Answered() {
	if wait, ok := s.moments[s.answers.Add(1)]; ok {
		s.crash <- wait // it has room for all of them
	}
}

// Serve runs a load against the named server. With c.Crash the server is a process of its own, which is killed with
// SIGKILL at random moments and started again on the same port; answers is how many answers the load gets at least. The
// context of the load ends if the server cannot be started again.
func Serve(ctx context.Context, c Config, place Place, name string, answers int, load func(ctx context.Context, s *Server) error) error {
	if c.Crash {
		return serveAndCrash(ctx, c, place, name, answers, load)
	}
	handler, closeDB, err := place.handler(ctx, name)
	if err != nil {
		return err
	}
	defer closeDB()
	l, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := newServer(handler)
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	return load(ctx, &Server{Address: l.Addr().String()})
}

func serveAndCrash(ctx context.Context, c Config, place Place, name string, answers int, load func(ctx context.Context, s *Server) error) error {
	p, err := startProcess(ctx, name, place)
	if err != nil {
		return err
	}
	defer func() { p.kill() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &Server{Address: p.address, crash: make(chan time.Duration, crashes), moments: map[int64]time.Duration{}}
	random := rand.New(rand.NewPCG(c.Seed, 1))
	for i := range crashes {
		window := answers * 4 / 5 / crashes // the last fifth is left to recover in
		s.moments[int64(i*window+1+random.IntN(window))] = time.Duration(random.IntN(3000)) * time.Microsecond
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait := range s.crash {
			time.Sleep(wait) // so that the kill meets requests at any point of theirs
			p.kill()
			s.kills.Add(1)
			if err := p.start(ctx); err != nil {
				cancel(fmt.Errorf("start the server again: %w", err))
				return
			}
		}
	}()
	err = load(ctx, s)
	close(s.crash)
	<-done
	if cause := context.Cause(ctx); err == nil || cause != nil {
		err = errors.Join(err, cause)
	}
	if err == nil && s.Kills() != crashes {
		err = fmt.Errorf("the server was killed %d times, not %d", s.Kills(), crashes)
	}
	return err
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
}

// listen takes the address. A server that comes back may find its port in use for a moment, by an outgoing connection of
// another program.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	for deadline := time.Now().Add(10 * time.Second); ; {
		l, err := config.Listen(ctx, "tcp", address)
		if err == nil || time.Now().After(deadline) {
			return l, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
