package retry_test

import (
	"context"
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// The key belongs to the order, and every attempt sends it.
func ExampleDo() {
	receipt, err := retry.Do(context.Background(), nil, retry.Keyed("order-7"), func(_ context.Context, a retry.Attempt) (string, error) {
		if a.Number == 1 {
			return "", errors.New("the reply was lost")
		}
		return "receipt of " + a.Key, nil
	})
	fmt.Println(receipt, err)
	// Output: receipt of order-7 <nil>
}

// Nothing says that a second run does no harm, so there is none, and nobody is told that it failed.
func ExampleRun() {
	err := retry.Run(context.Background(), nil, retry.Unsafe, func(context.Context, retry.Attempt) error {
		return errors.New("the reply was lost")
	})
	fmt.Println(errors.Is(err, retry.ErrUnsafe), holdfast.OutcomeOf(err))
	// Output: true unknown
}
