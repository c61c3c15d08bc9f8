package herd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

// child is the name of the process that asks.
const child = "stampede"

func init() { story.RegisterChild(child, openChild) } //nolint:gochecknoinits // a process must know it before main

// An assignment is what such a process is told.
type assignment struct {
	Act    string // the cache to use
	Redis  string // the URL of the server
	Prefix string // of the keys
	Source string // the URL of the source
}

// openChild lets many callers ask one cache in Redis.
func openChild(text string) (http.Handler, error) {
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(a.Redis)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(o)
	cache, ok := map[string]func(*redis.Client, string, Loader) RemoteCache{
		"get, compute, set": func(c *redis.Client, p string, l Loader) RemoteCache { return &NaiveRemote{c, p, l} },
		"x/sync":            func(c *redis.Client, p string, l Loader) RemoteCache { return NewSharedRemote(c, p, l) },
		"redisflight.Cache": func(c *redis.Client, p string, l Loader) RemoteCache { return NewFencedRemote(c, p, l) },
	}[a.Act]
	if !ok {
		return nil, fmt.Errorf("there is no act %q", a.Act)
	}
	below := &http.Transport{MaxIdleConnsPerHost: callers}
	load := func(ctx context.Context, id string) (int64, error) {
		text, err := call(ctx, &http.Client{Transport: below}, a.Source+"/"+id)
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(text, 10, 64)
	}
	return attend(cache(client, a.Prefix, load)), nil
}

// attend answers what the fleet says.
func attend(cache RemoteCache) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ask/{callers}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("callers"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		versions, errs := make([]int64, n), make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { versions[i], errs[i] = cache.Get(r.Context(), product) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(versions)
	})
	mux.HandleFunc("/invalidate", func(w http.ResponseWriter, r *http.Request) {
		if err := cache.Invalidate(r.Context(), product); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// call returns the text at a URL.
func call(ctx context.Context, client *http.Client, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d %s", url, res.StatusCode, strings.TrimSpace(string(text)))
	}
	return string(text), err
}
