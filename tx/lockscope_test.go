package tx_test

import (
	"context"
	"errors"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// The closure of each attempt has a scope of its own for locks, which ends with it.
func TestDoHasALockScope(t *testing.T) {
	t.Parallel()
	var leaked context.Context
	attempts := 0
	err := tx.New[*int](&fake{}).Do(t.Context(), func(ctx context.Context, _ *int) error {
		if attempts++; holdfast.ExternalCall(ctx) != nil {
			t.Error("a new attempt begins with locks held")
		}
		holdfast.LockScopeOf(ctx).Hold("account", nil)
		if !errors.Is(holdfast.ExternalCall(ctx), holdfast.ErrLockHeld) {
			t.Error("a call was not refused while the lock was held")
		}
		if attempts == 1 {
			return errConflict
		}
		leaked = ctx
		return tx.AfterCommit(ctx, func(ctx context.Context) {
			if err := holdfast.ExternalCall(ctx); err != nil {
				t.Errorf("after the commit: %v", err)
			}
		})
	})
	if err != nil || attempts != 2 {
		t.Fatalf("%d attempts, %v", attempts, err)
	}
	if err := holdfast.ExternalCall(leaked); err != nil {
		t.Errorf("after the transaction: %v", err)
	}
}
