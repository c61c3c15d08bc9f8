package story

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestAServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	pid(t, "http://"+address)
	_ = parent.Process.Kill() // which it cannot clean up after
	_ = parent.Wait()
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server outlived its parent")
		}
	}
}

func TestAServerIsKilledAndComesBackOnItsPort(t *testing.T) {
	t.Parallel()
	place, err := NewPlace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer place.Remove()
	pids := map[string]bool{}
	const answers = 30
	var server *Server
	err = Serve(t.Context(), Config{Crash: true}, place, "test", answers, func(_ context.Context, s *Server) error {
		server = s
		url := s.URL()
		for range answers {
			pids[pid(t, url)] = true
			s.Answered()
			// Asks the next server once the last one is dead.
			for int(s.kills.Load()) < s.due() {
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
	if err != nil || server.Kills() != crashes || len(pids) != crashes+1 {
		t.Fatalf("%d kills and %d processes: %v", server.Kills(), len(pids), err)
	}
}

// due is how many kills the answers so far ask for.
func (s *Server) due() (n int) {
	for at := range s.moments {
		if at <= s.answers.Load() {
			n++
		}
	}
	return n
}

func TestALoadTooShortForTheKillsFails(t *testing.T) {
	t.Parallel()
	place, err := NewPlace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer place.Remove()
	err = Serve(t.Context(), Config{Crash: true}, place, "test", 30, func(context.Context, *Server) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "killed 0 times") {
		t.Errorf("got %v", err)
	}
	broken := errors.New("the load failed")
	err = Serve(t.Context(), Config{Crash: true}, place, "test", 30, func(context.Context, *Server) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// pid asks a server for its process, until it answers.
func pid(t *testing.T, url string) string {
	t.Helper()
	for {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(r); err == nil {
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err == nil {
				return string(body)
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("no answer")
		}
	}
}
