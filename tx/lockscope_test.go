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

// A lock that is taken in a transaction from inside one of another pool is held until its own ends.
func TestLockScopeAcrossAnotherPool(t *testing.T) {
	t.Parallel()
	db, other := tx.New[*int](&fake{}), tx.New[*int](&fake{})
	err := db.Do(t.Context(), func(ctx context.Context, one *int) error {
		err := other.Do(ctx, func(ctx context.Context, _ *int) error {
			holdfast.LockScopeOf(ctx).Hold("stock", nil)
			holdfast.LockScopeOf(db.Within(ctx, one)).Hold("account", nil)
			for where, ctx := range map[string]context.Context{"in between": ctx, "within": db.Within(ctx, one)} {
				var held *holdfast.LockHeldError
				if err := holdfast.ExternalCall(ctx); !errors.As(err, &held) || len(held.Locks) != 2 {
					t.Errorf("%s: %v", where, err)
				}
			}
			return nil
		})
		var held *holdfast.LockHeldError
		if err := holdfast.ExternalCall(ctx); !errors.As(err, &held) || len(held.Locks) != 1 || held.Locks[0] != "account" {
			t.Errorf("when the other has ended: %v", err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
