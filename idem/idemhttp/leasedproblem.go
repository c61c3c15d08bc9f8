package idemhttp

import (
	"errors"
	"net/http"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

// inDoubt reports whether nobody knows what became of a step, or whether the answer is stored. Then no response counts.
func inDoubt(err error) bool {
	return errors.Is(err, idem.ErrOutcomeUnknown) || errors.Is(err, idem.ErrLeaseLost) || errors.Is(err, idem.ErrNotRecorded)
}

// leasedProblem tells what an error of idem.DoLeased means to the client. ran tells that the handler did.
func leasedProblem(err error, ran bool) *Problem {
	switch {
	case inDoubt(err):
		return outcomeUnknown(err)
	case ran && (errors.Is(err, errFinished) || holdfast.OutcomeOf(err) == holdfast.Applied):
		return unread(err)
	case ran:
		return &Problem{
			Status: http.StatusInternalServerError, Code: CodeRequestFailed, Err: err,
			Detail: "The request failed. It may be sent again, with the same key: what is known to be done is not done again.",
		}
	}
	return problemOf(err, false)
}

func outcomeUnknown(err error) *Problem {
	p := &Problem{
		Status: http.StatusServiceUnavailable, Code: CodeOutcomeUnknown, RetryAfter: again, Err: err,
		Detail: "Nobody knows whether the operation was done. Send the request again with the same key: that is safe, and finds out.",
	}
	var unknown *idem.UnknownError
	if errors.As(err, &unknown) {
		if p.RetryAfter = unknown.RetryAfter; p.RetryAfter == 0 {
			p.Detail = "Nobody knows whether the operation was done, and somebody has to find out. It is not done again until then."
		}
	}
	return p
}
