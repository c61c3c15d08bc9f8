package herd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

// processes is how many share the cache.
const processes = 3

// RunProcesses is the story across processes: the source is in this one, the callers are in three others, and the cache is in
// the Redis of c.Redis.
func RunProcesses(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "stampede-redis", Hazard: "the same in three processes", Backend: "redis", NaiveDamage: -1}
	for _, act := range []struct {
		name  string
		naive bool
	}{{"get, compute, set", true}, {"x/sync", true}, {"redisflight.Cache", false}} {
		t, err := playProcesses(ctx, c, act.name)
		if err != nil {
			return r, err
		}
		t.report(c, &r, act.name, act.naive)
	}
	r.Judge()
	return r, nil
}

func playProcesses(ctx context.Context, c story.Config, act string) (t tally, err error) {
	s := newSource()
	server := httptest.NewServer(s)
	defer server.Close()
	text, err := json.Marshal(assignment{Act: act, Redis: c.Redis, Prefix: "stampede-" + rand.Text() + ":", Source: server.URL})
	if err != nil {
		return t, err
	}
	var f remote
	for range processes {
		url, stop, err := story.StartChild(ctx, child, string(text))
		if err != nil {
			return t, err
		}
		defer stop()
		f = append(f, url)
	}
	return play(ctx, s, f)
}

// ServeHTTP is the source for other processes.
func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version, err := s.load(r.Context(), product)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write(strconv.AppendInt(nil, version, 10))
}

// remote are the URLs of the processes that ask.
type remote []string

// invalidate tells one of them, as the process that wrote would do.
func (f remote) invalidate(ctx context.Context) error {
	_, err := call(ctx, http.DefaultClient, f[0]+"/invalidate")
	return err
}

func (f remote) ask(ctx context.Context, callers int) answers {
	parts, errs := make([][]int64, len(f)), make([]error, len(f))
	var all sync.WaitGroup
	for i, url := range f {
		share := callers / len(f)
		if i == 0 {
			share += callers % len(f)
		}
		all.Go(func() {
			var text string
			if text, errs[i] = call(ctx, http.DefaultClient, url+"/ask/"+strconv.Itoa(share)); errs[i] == nil {
				errs[i] = json.Unmarshal([]byte(text), &parts[i])
			}
		})
	}
	all.Wait()
	var got answers
	for _, part := range parts {
		got.versions = append(got.versions, part...)
	}
	got.err = errors.Join(errs...)
	return got
}
