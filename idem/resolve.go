package idem

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

// errLooked ends a transaction that was begun to look. The rollback is waited for, since the claim that comes next needs
// the lock.
var errLooked = errors.New("idem: looked")

// resolve finds out what became of a commit whose reply was lost. It claims the key anew: while the lost transaction is
// open the claim finds it busy, and once the claim succeeds that transaction can no longer commit.
func (k *Keys[T]) resolve(ctx context.Context, lost *call) (holdfast.Outcome, error) {
	db := k.db.With(tx.Options{Isolation: tx.ReadCommitted})
	for try := 1; ; try++ {
		look := newCall(lost.key)
		err := db.Run(ctx, tx.Plan[T]{
			Lead: func() []*tx.Stmt { return k.claim(look) },
			Work: func(context.Context, T) error { return errLooked },
		})
		if !errors.Is(err, errLooked) {
			return holdfast.Unknown, err
		}
		switch row := look.row; {
		case row.state > stateRunning && row.nonce == lost.nonce:
			return holdfast.Applied, nil
		case row.state > stateRunning && (look.free() || !row.over() || !k.o.AllowReuse):
			return holdfast.NotApplied, nil // the key holds the answer of another execution
		case row.state == 0 && look.free(), row.nonce == look.nonce:
			return holdfast.NotApplied, nil
		}
		if err := sleep(ctx, jitter.Full(5*time.Millisecond, 100*time.Millisecond, try)); err != nil {
			return holdfast.Unknown, err
		}
	}
}
