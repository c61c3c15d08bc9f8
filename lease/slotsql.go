package lease

import (
	"cmp"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// States of a slot.
const (
	slotRunning = "running" // by a run, or by one that died
	slotLeft    = "left"    // by a run that was stopped, to another
	slotDone    = "done"
	slotFailed  = "failed"
	slotPassed  = "passed" // before the job was first seen
)

// lookSlotSQL tells the server's time, the state of a slot, empty if nobody began it, and why it failed.
const lookSlotSQL = `select {now_ms}, coalesce(s.state, ''), coalesce(s.error, '')
from (select 1) one left join {slots} s on s.job = cast($1 as text) and s.slot = {slot}`

// beginSlotSQL is sent by the holder of the slot's lease. One of the past does not get by the token of the next, and a slot that
// has ended is not begun again.
const beginSlotSQL = `insert into {slots} as s (job, slot, state, lease, token, nonce, attempts, holder, started_at)
values (cast($1 as text), {slot}, 'running', cast($3 as text), cast($4 as bigint), cast($5 as text), 1, cast($6 as text), {now})
on conflict (job, slot) do update set
	state = case when s.attempts < cast($7 as bigint) then 'running' else 'failed' end,
	error = case when s.attempts < cast($7 as bigint) then null else 'given up: its runs died' end,
	lease = excluded.lease, token = excluded.token, nonce = excluded.nonce, attempts = s.attempts + 1, holder = excluded.holder,
	started_at = excluded.started_at, finished_at = null
where s.state in ('running', 'left') and s.token < excluded.token
returning state, attempts`

// endSlotSQL is the fence of a slot: it matches for the run that began it last. What is done stays done.
const endSlotSQL = `update {slots} set state = case when state = 'done' then state else cast($4 as text) end,
	error = case when state = 'done' then error else cast($5 as text) end, finished_at = coalesce(finished_at, {now})
where job = cast($1 as text) and slot = {slot} and nonce = cast($3 as text)`

// reopenSlotSQL takes the slot from the run that failed, too: what is still on its way of that one no longer matches.
const reopenSlotSQL = `update {slots} set state = 'left', error = null, nonce = '', attempts = 0, finished_at = null
where job = cast($1 as text) and slot = {slot} and state = 'failed'`

// resolveSlotSQL waits for the end of a transaction that ends the slot.
const resolveSlotSQL = `select state from {slots} where job = $1 and slot = {slot} and nonce = $3 {locked}`

// openSlotsSQL tells the server's time, the first slot that is known of the job, and those that began and have not ended, with
// whether their run is alive.
const openSlotsSQL = `select c.now, c.first, coalesce({slot_ms}, 0), {alive}
from (select {now_ms} as now, coalesce((select min({slot_ms}) from {slots} s where s.job = cast($1 as text)), 0) as first) c
left join {slots} s on s.job = cast($1 as text) and s.state in ('running', 'left') and s.slot >= {ago}`

const seeJobSQL = `insert into {slots} (job, slot, state, lease, token, nonce, attempts, started_at)
values (cast($1 as text), {slot}, 'passed', '', 0, '', 0, {now}) on conflict do nothing`

const knownSlotsSQL = `select {slot_ms} from {slots} s where job = $1 and slot >= {slot}`

// sweepSlotsSQL keeps the last slot, from which on slots can be missed, and those with a run.
const sweepSlotsSQL = `delete from {slots} where job = cast($1 as text) and slot in (
	select slot from {slots} s where s.job = cast($1 as text) and s.slot < {ago}
		and s.slot < (select max(slot) from {slots} where job = cast($1 as text)) and not {alive}
	order by s.slot limit cast($3 as bigint) {skip}
) returning lease`

// sweepLeasesSQL removes the leases of slots that were swept. Tokens go on rising.
const sweepLeasesSQL = `delete from {leases} where name in ({names}) and nonce is null and expires_at <= {now}`

// slotTexts are the statements on one table of slots.
type slotTexts struct{ look, begin, end, reopen, resolve, open, see, known, sweep, sweepLeases string }

func newSlotTexts(d *tx.Dialect, names Names) slotTexts {
	s := slotTexts{
		lookSlotSQL, beginSlotSQL, endSlotSQL, reopenSlotSQL, resolveSlotSQL, openSlotsSQL, seeJobSQL, knownSlotsSQL, sweepSlotsSQL, sweepLeasesSQL,
	}
	leases := d.Table(names.Schema, names.Table)
	alive := strings.NewReplacer("{leases}", leases, "{now}", d.Now).Replace(
		`exists (select 1 from {leases} l where l.name = s.lease and l.nonce = s.nonce and l.expires_at > {now})`)
	pairs := []string{
		"{slots}", d.Table(names.Schema, cmp.Or(names.Slots, DefaultSlots)), "{leases}", leases, "{alive}", alive, "{now}", d.Now,
	}
	if d == tx.SQLite {
		pairs = append(pairs, "{now_ms}", d.Now, "{slot}", "cast($2 as bigint)", "{slot_ms}", "s.slot", "{ago}", d.Now+" - cast($2 as bigint)",
			"{locked}", "", "{skip}", "", "{names}", "select value from json_each($1)")
	} else {
		pairs = append(pairs, "{now_ms}", "(extract(epoch from clock_timestamp()) * 1000)::bigint",
			"{slot}", "timestamptz 'epoch' + cast($2 as bigint) * interval '1 millisecond'",
			"{slot_ms}", "(extract(epoch from s.slot) * 1000)::bigint",
			"{ago}", "clock_timestamp() - cast($2 as bigint) * interval '1 millisecond'",
			"{locked}", "for update", "{skip}", "for update of s skip locked",
			"{names}", "select jsonb_array_elements_text(cast($1 as jsonb))")
	}
	in := strings.NewReplacer(pairs...)
	for _, text := range []*string{&s.look, &s.begin, &s.end, &s.reopen, &s.resolve, &s.open, &s.see, &s.known, &s.sweep, &s.sweepLeases} {
		*text = in.Replace(*text)
	}
	return s
}
