package lease

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

// Evict implements [Evicter]. On PostgreSQL it waits with a connection of its own, and looks who is in the way with another.
func (s *SQL[T]) Evict(ctx context.Context, name string) (h Holding, err error) {
	if s.err != nil {
		return h, s.err
	}
	held := false
	evict := s.evictAlone
	if s.db.Dialect().Capabilities.ConcurrentWriters {
		evict = s.evictAmong
	}
	blocked := &BlockedError{Name: name}
	if err := evict(ctx, name, &h, &held, blocked); err != nil {
		return h, err
	}
	if !held {
		return h, ErrFree
	}
	return h, nil
}

// cutPostgres is a release by somebody else. Guards are refused from here on, so that a busy holder cannot keep the row locked by
// one transaction after the other.
const cutPostgres = `with was (name, holder, meta, token, since, until, resign, released, held) as (
	select {holding}, nonce is not null or expires_at > clock_timestamp() from {table} where name = $1::text for no key update
), cut as (
	update {table} t set nonce = null, holder = null, meta = null, resign = false, expires_at = clock_timestamp(), keep_until = null,
		{notify}
	from was where t.name = was.name
)
select * from was`

// evictAmong cuts the holder off, and then takes the token away from those who passed the guard before.
func (s *SQL[T]) evictAmong(ctx context.Context, name string, h *Holding, held *bool, blocked *BlockedError) error {
	err := s.again(ctx, func() error { return scanHolding(s.db.Conn().QueryRow(ctx, s.sql.cut, name), h, held) })
	switch {
	case errors.Is(err, tx.ErrNoRows):
		return ErrFree
	case err != nil:
		return err
	}
	blocked.Holder, blocked.Token, blocked.Cut = h.Holder, h.Token, true
	for {
		done, err := s.renumber(ctx, h, blocked)
		if done {
			return nil
		}
		if err != nil || ctx.Err() != nil {
			blocked.Err = errors.Join(err, context.Cause(ctx))
			return blocked
		}
	}
}

const renumberPostgres = `update {table} set token = greatest(token + 1, nextval('{tokens}'))
where name = $1::text and token = $2::bigint`

// slice is how long one transaction waits for those that passed the guard. The server ends the wait, so that no session of ours is
// left in the queue.
const slice = 500 * time.Millisecond

// renumber gives the lease of h a new token, or finds that it has one, unless a transaction that the guard let pass is open: then it
// notes in blocked whose.
func (s *SQL[T]) renumber(ctx context.Context, h *Holding, blocked *BlockedError) (done bool, err error) {
	patience := slice
	if deadline, ok := ctx.Deadline(); ok {
		patience = max(min(patience, time.Until(deadline)), time.Millisecond)
	}
	// Neither in a transaction of the caller's, nor cut off in the middle, which would cost the connection.
	own, cancel := context.WithTimeout(context.Background(), patience+releaseTimeout)
	defer cancel()
	err = s.db.With(tx.Options{Attempts: 1}).Do(own, func(ctx context.Context, t T) error {
		conn := s.db.Tx(t)
		var pid int
		row := conn.QueryRow(ctx, "select pg_backend_pid() from set_config('lock_timeout', $1::text, true)",
			strconv.FormatInt(patience.Milliseconds(), 10))
		if err := row.Scan(&pid); err != nil {
			return err
		}
		defer s.lookOut(ctx, pid, blocked)()
		_, err := conn.Exec(ctx, s.sql.renumber, h.Name, h.Token)
		return err
	})
	var state interface{ SQLState() string }
	waited := errors.As(err, &state) && state.SQLState() == "55P03" // lock_not_available
	if waited || s.db.Classify(err) == tx.Retryable || errors.Is(err, tx.ErrCommitUnknown) {
		return false, nil
	}
	return err == nil, err
}

const blockersSQL = `select pid, coalesce(application_name, ''), coalesce(state, ''),
	coalesce((extract(epoch from clock_timestamp() - query_start) * 1000000)::bigint, 0),
	coalesce((extract(epoch from clock_timestamp() - xact_start) * 1000000)::bigint, 0)
from pg_stat_activity where pid = any(pg_blocking_pids($1::int)) order by xact_start, pid`

// lookOut looks, once it waits, whom the session pid waits for, until the function that it returns is called.
func (s *SQL[T]) lookOut(ctx context.Context, pid int, blocked *BlockedError) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for attempt := 1; ; attempt++ {
			if sleep(ctx, jitter.Full(10*time.Millisecond, slice/4, attempt)) != nil {
				return
			}
			if blockers, err := s.blockers(ctx, pid); err == nil && len(blockers) > 0 {
				blocked.Blockers = blockers
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (s *SQL[T]) blockers(ctx context.Context, pid int) (blockers []Blocker, err error) {
	rows, err := s.db.Conn().Query(ctx, blockersSQL, pid)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b Blocker
		var query, transaction int64
		if err := rows.Scan(&b.PID, &b.Application, &b.State, &query, &transaction); err != nil {
			return nil, err
		}
		b.QueryAge, b.TransactionAge = time.Duration(query)*time.Microsecond, time.Duration(transaction)*time.Microsecond
		blockers = append(blockers, b)
	}
	return blockers, rows.Err()
}

const cutSQLite = `select {holding}, nonce is not null or expires_at > {now} from {table} where name = $1`

const evictSQLite = `update {table} set token = max(token + 1, {now} * 1000), nonce = null, holder = null, meta = null, resign = false,
	expires_at = {now}, keep_until = null
where name = $1`

// evictAlone is the one writer, once it is its turn: no transaction of the holder's is open then.
func (s *SQL[T]) evictAlone(ctx context.Context, name string, h *Holding, held *bool, blocked *BlockedError) error {
	ctx, cancel := apart(ctx)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := s.db.With(tx.Options{Attempts: 1}).Do(ctx, func(ctx context.Context, t T) error {
			conn := s.db.Tx(t)
			if err := scanHolding(conn.QueryRow(ctx, s.sql.cut, name), h, held); err != nil || !*held {
				return err
			}
			_, err := conn.Exec(ctx, s.sql.renumber, name)
			return err
		})
		switch {
		case errors.Is(err, tx.ErrNoRows):
			return ErrFree
		case err == nil || ctx.Err() == nil && s.db.Classify(err) != tx.Retryable:
			return err
		}
		if cause := sleep(ctx, jitter.Full(time.Millisecond, 50*time.Millisecond, attempt)); cause != nil {
			blocked.Holder, blocked.Token, blocked.Err = h.Holder, h.Token, errors.Join(err, cause)
			return blocked
		}
	}
}
