package rediscounter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
)

// C4: who reads, subtracts and writes sells more than there is.
func TestC4AStormSellsWhatThereIs(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), context.Background()
	want(t, 40)(f.Add(ctx, "stock", 40, "fill"))
	var sold, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for range 2 { // each order comes twice
				switch _, err := f.Take(ctx, "stock", 1, fmt.Sprint("order ", i)); {
				case err == nil:
					sold.Add(1)
				case errors.Is(err, rediscounter.ErrInsufficient) && holdfast.OutcomeOf(err) == holdfast.NotApplied:
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if sold.Load() != 80 || refused.Load() != 48 {
		t.Errorf("sold %d, refused %d", sold.Load(), refused.Load())
	}
	want(t, 0)(f.Get(ctx, "stock"))
}

// A model is what counters do, one change after the other.
type model struct {
	value map[string]int64
	made  map[string]result
}

type result struct {
	what  string
	value int64
}

var errMismatch, errShort = rediscounter.ErrMismatch, rediscounter.ErrInsufficient

func (m *model) change(take bool, name string, n int64, operation string) (int64, error) {
	what, entry := fmt.Sprint(take, n), name+"/"+operation
	if made, ok := m.made[entry]; ok && operation != "" {
		if made.what != what {
			return 0, errMismatch
		}
		return made.value, nil
	}
	have := m.value[name]
	if take && have < n {
		return 0, errShort
	}
	if take {
		n = -n
	}
	sum := have + n
	if n > 0 && sum < have || n < 0 && sum > have {
		return 0, rediscounter.ErrOverflow
	}
	m.value[name], m.made[entry] = sum, result{what, sum}
	return sum, nil
}

// HOLDFAST_SEED repeats the choices of a run.
func TestCountersDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("HOLDFAST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("HOLDFAST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f, ctx, m := start(t, nil), t.Context(), &model{map[string]int64{}, map[string]result{}}
	for i := range 2000 {
		name, n, operation := fmt.Sprint(random.IntN(3)), random.Int64N(9)-3, ""
		if random.IntN(4) == 0 {
			n = int64(random.Uint64()) // overflows every second time
		}
		if random.IntN(2) == 0 {
			operation = fmt.Sprint(random.IntN(300))
		}
		take, change := random.IntN(2) == 0, f.Add
		if take {
			n, change = max(1, n), f.Take
		}
		wanted, refusal := m.change(take, name, n, operation)
		if got, err := change(ctx, name, n, operation); got != wanted || !errors.Is(err, refusal) || (refusal == nil) != (err == nil) {
			t.Fatalf("step %d: take %v of %d from %s as %q: %d, %v; want %d, %v", i, take, n, name, operation, got, err, wanted, refusal)
		}
		if got, err := f.Get(ctx, name); err != nil || got != m.value[name] {
			t.Fatalf("step %d: %s is %d, %v; want %d", i, name, got, err, m.value[name])
		}
	}
}
