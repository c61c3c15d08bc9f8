package idemhttp

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/idem"
)

// Without options a service says what is wrong with it where its other errors go.
func TestErrorsAreLoggedByDefault(t *testing.T) { //nolint:paralleltest // it changes the default logger
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	rec := httptest.NewRecorder()
	New[int]((*idem.Keys[int])(nil), nil, nil).Wrap(http.NotFoundHandler()).
		ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	if rec.Code != http.StatusInternalServerError || !strings.Contains(rec.Body.String(), CodeMisconfigured) {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	if text := log.String(); !strings.Contains(text, "New needs keys") || !strings.Contains(text, "level=ERROR") {
		t.Errorf("logged %q", text)
	}
}
