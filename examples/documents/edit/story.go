package edit

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	documents = 4
	editors   = 2 // of each document
	saves     = 12
)

// A service is what is on trial.
type service struct{ name, server string }

var (
	lastWins = service{"the last one wins", "documents, last wins"}
	ours     = service{"holdfast", "documents"}
)

func init() {
	story.RegisterServer(lastWins.server, LastWins[*sql.Tx], LastWins[pgx.Tx])
	story.RegisterServer(ours.server, Ours[*sql.Tx], Ours[pgx.Tx])
}

// Run runs the story: the same editors at a service where the last one wins, and at ours.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "documents", Hazard: "lost update on an edit form", Backend: story.Backend(c.DSN)}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	naive, err := try(ctx, c, lastWins)
	if err != nil {
		return r, err
	}
	held, err := try(ctx, c, ours)
	if err != nil {
		return r, err
	}
	r.Operations = naive.requests + held.requests
	r.NaiveDamage = naive.lost
	r.Damage = held.lost + held.strange
	r.Judge()
	return r, nil
}

// report is what became of the edits.
type report struct {
	requests, refused int
	lost              int // lines that were saved, with 200, and are gone
	strange           int // lines that nobody saved, or that are there twice
}

func try(ctx context.Context, c story.Config, s service) (r report, err error) {
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return r, err
	}
	defer place.Remove()
	if err := place.On(ctx, Migrate[*sql.Tx], Migrate[pgx.Tx]); err != nil {
		return r, err
	}
	var all []*editor
	err = story.Serve(ctx, c, place, s.server, documents*editors*saves, func(ctx context.Context, server *story.Server) error {
		errs := make([]error, documents*editors)
		var wg sync.WaitGroup
		for i := range documents * editors {
			e := &editor{server: server, name: fmt.Sprintf("editor %d", i), document: fmt.Sprintf("doc-%d", i/editors)}
			all = append(all, e)
			wg.Go(func() { errs[i] = e.work(ctx) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	if err != nil {
		return r, err
	}
	for _, e := range all {
		r.requests, r.refused = r.requests+e.requests, r.refused+e.refused
	}
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { return r.count(ctx, db.Conn(), all) },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return r.count(ctx, db.Conn(), all) })
	c.Logf("%-18s %4d requests, %3d told that somebody was faster: %3d of %d edits lost", s.name, r.requests, r.refused, r.lost, documents*editors*saves)
	return r, err
}

// count compares what the editors believe to be saved with what is there.
func (r *report) count(ctx context.Context, conn tx.Conn, all []*editor) error {
	for i := 0; i < len(all); i += editors {
		var body string
		if err := conn.QueryRow(ctx, "select body from document where id = $1", all[i].document).Scan(&body); err != nil {
			return err
		}
		there := map[string]int{}
		for _, line := range strings.Fields(body) {
			there[line]++
		}
		for _, e := range all[i : i+editors] {
			for _, line := range e.saved {
				n := there[line]
				if n == 0 {
					r.lost++
				}
				delete(there, line)
				r.strange += max(n-1, 0)
			}
		}
		r.strange += len(there)
	}
	return nil
}

// An editor loads a document, adds a line, and saves.
type editor struct {
	server            *story.Server
	name, document    string
	requests, refused int
	saved             []string
}

func (e *editor) work(ctx context.Context) error {
	for n := 0; n < saves; {
		line := strings.ReplaceAll(fmt.Sprintf("%s, save %d", e.name, n), " ", "_")
		saved, err := e.save(ctx, line)
		if err != nil {
			return err
		}
		if saved {
			e.saved = append(e.saved, line)
			n++
		}
	}
	return nil
}

// save reports false when somebody else was faster: then the editor loads again, and looks at what the other did.
func (e *editor) save(ctx context.Context, line string) (bool, error) {
	status, body, etag, err := e.request(ctx, http.MethodGet, "", nil)
	if err != nil {
		return false, err
	}
	precondition := map[string]string{"If-Match": etag}
	switch status {
	case http.StatusNotFound:
		body, precondition = "", map[string]string{"If-None-Match": "*"}
	case http.StatusOK:
	default:
		return false, fmt.Errorf("loading got %d: %s", status, body)
	}
	status, answer, _, err := e.request(ctx, http.MethodPut, body+line+"\n", precondition)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusPreconditionFailed:
		e.refused++
		return false, nil
	case status == http.StatusOK, status == http.StatusCreated:
		e.server.Answered()
		return true, nil
	}
	return false, fmt.Errorf("saving got %d: %s", status, answer)
}

func (e *editor) request(ctx context.Context, method, body string, headers map[string]string) (status int, answer, etag string, err error) {
	e.requests++
	r, err := http.NewRequestWithContext(ctx, method, e.server.URL()+"/documents/"+e.document, bytes.NewBufferString(body))
	if err != nil {
		return 0, "", "", err
	}
	for name, value := range headers {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.Header.Get("ETag"), err
}
