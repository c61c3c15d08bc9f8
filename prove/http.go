package prove

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
)

// An Answer is what a client sees of an HTTP response and may rely on when it repeats its request.
type Answer struct {
	Status int
	Body   string
}

// HTTP returns a [Handler].Call that sends the request for a key to an HTTP handler over the database. 409, 425, 429 and the
// statuses from 500 are errors: a client tries again after them. Any other response is the answer. A panic of the handler
// goes up, as one in Call does.
func HTTP[D any](handler func(db D) http.Handler, request func(key string) *http.Request) func(ctx context.Context, db D, key string) (Answer, error) {
	return func(ctx context.Context, db D, key string) (Answer, error) {
		w := httptest.NewRecorder()
		handler(db).ServeHTTP(w, request(key).WithContext(ctx))
		switch {
		case w.Code == http.StatusConflict, w.Code == http.StatusTooEarly, w.Code == http.StatusTooManyRequests, w.Code >= 500:
			return Answer{}, fmt.Errorf("prove: status %d: %s", w.Code, w.Body)
		}
		return Answer{Status: w.Code, Body: w.Body.String()}, nil
	}
}
