package counter

import "context"

// Add adds n, which may be negative, in a transaction of its own, and returns once it is committed. Calls at the same moment
// for one counter share a commit; a call that is alone takes one round trip. In a closure of the same DB, Add joins its
// transaction, as [Counters.AddTx] does.
//
// A counter in slots does not go below 0, see [Counters.Resize].
//
// It returns [*OverflowError], [*NotFoundError], [*InsufficientError] (in slots), [*MismatchError], [*InputError],
// [ErrClosed], [*UnknownError] if the outcome is not known, and otherwise an error of [tx.DB.Do]: of all but UnknownError,
// holdfast.OutcomeOf is NotApplied.
func (c *Counters[T]) Add(ctx context.Context, key string, n int64, options ...Option) (Result, error) {
	ch, err := newChange(key, n, options)
	if err != nil {
		return Result{}, err
	}
	return c.begin(ctx, ch)
}

// AddTx is [Counters.Add] in the caller's transaction, and takes effect with it. The row stays locked until its end: make it
// the last statement. A refusal leaves the transaction usable; an error of the database does not, on PostgreSQL.
func (c *Counters[T]) AddTx(ctx context.Context, t T, key string, n int64, options ...Option) (Result, error) {
	ch, err := newChange(key, n, options)
	if err != nil {
		return Result{}, err
	}
	return c.join(ctx, t, ch)
}

// Take takes n, which must be positive, if there is as much, and otherwise nothing: n sold of a stock are never more than
// were there, however many take at once. Otherwise it is as [Counters.Add].
//
// It returns [*InsufficientError], which carries what there is, and the errors of Add.
func (c *Counters[T]) Take(ctx context.Context, key string, n int64, options ...Option) (Result, error) {
	ch, err := newTake(key, n, options)
	if err != nil {
		return Result{}, err
	}
	return c.begin(ctx, ch)
}

// TakeTx is [Counters.Take] in the caller's transaction, with what [Counters.AddTx] says.
func (c *Counters[T]) TakeTx(ctx context.Context, t T, key string, n int64, options ...Option) (Result, error) {
	ch, err := newTake(key, n, options)
	if err != nil {
		return Result{}, err
	}
	return c.join(ctx, t, ch)
}

// begin makes a change in a transaction of its own, or of a batch, unless ctx is that of a closure.
func (c *Counters[T]) begin(ctx context.Context, ch change) (Result, error) {
	if c.err != nil {
		return Result{}, c.err
	}
	if t, ok := c.db.Current(ctx); ok {
		return c.join(ctx, t, ch)
	}
	res, err := c.share(ctx, ch)
	err = c.explain(err, ch.key)
	c.tell(ctx, ch, res, err)
	return res, err
}

func (c *Counters[T]) join(ctx context.Context, t T, ch change) (Result, error) {
	if c.err != nil {
		return Result{}, c.err
	}
	res, err := c.apply(ctx, c.db.Tx(t), ch)
	err = c.explain(err, ch.key)
	c.tell(ctx, ch, res, err)
	return res, err
}
