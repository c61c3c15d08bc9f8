package lease

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/wake"
)

// wakeChannel is where those who free a lease send its name, if somebody has said that it is waited for. Tables share it: a name that
// two of them have costs a look.
const wakeChannel = "holdfast_lease"

// notifyPostgres stands in the statements that free a lease. It takes back what awaitPostgres said, and only then notifies: commits
// that do wait for each other, and most leases are released with nobody waiting.
const notifyPostgres = `awaited_until = case when awaited_until > clock_timestamp()
		then nullif(pg_notify('` + wakeChannel + `', $1::text)::text, '')::timestamptz end`

// awaitPostgres says that somebody waits, unless that is said already and holds for a while, and returns false if there is nothing to
// wait for: what frees the lease comes before it and is seen here, or after it and notifies. A row that has changed since the
// snapshot counts as free, for the caller to look again. It changes no column of a key, so that it waits for no guard.
const awaitPostgres = `with told as (
	update {table} set awaited_until = clock_timestamp() + $2::bigint * interval '1 microsecond'
	where name = $1::text and expires_at > clock_timestamp()
		and (awaited_until is null or awaited_until < clock_timestamp() + $2::bigint * interval '1 microsecond' / 2)
	returning name
)
select exists (select from told) or exists (
	select from {table} where name = $1::text and expires_at > clock_timestamp()
		and awaited_until >= clock_timestamp() + $2::bigint * interval '1 microsecond' / 2
)`

// awaited is how long a word holds that somebody waits. Who dies before costs one notification that nobody needs.
const awaited = 30 * time.Second

// line returns the line on which names of leases that are freed arrive.
func (s *SQL[T]) line(told func(err error)) *wake.Line {
	return wake.New(s.db, wakeChannel, told)
}

// await says that somebody waits for the lease of name. It reports whether there is still something to wait for.
func (s *SQL[T]) await(ctx context.Context, name string) (held bool, err error) {
	if s.err != nil || !s.db.Dialect().Capabilities.Notifications {
		return true, s.err
	}
	err = s.again(ctx, func() error {
		return s.db.Conn().QueryRow(ctx, s.sql.await, name, awaited.Microseconds()).Scan(&held)
	})
	return held, err
}
