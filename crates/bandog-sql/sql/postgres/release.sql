-- Releases mutexes. This statement contains the rules of `LockState` for mutexes without a queue. Rows that another
-- transaction has locked are skipped. As in the statement for claims, each table is read by `any ($1)`, and the time of a
-- row before its lock.
--
-- The commit does not wait for the disk. If the server crashes within three times `wal_writer_delay` (0.6 s by default),
-- the release may be lost, and then the lock stays held until its ttl ends. A lock that was granted again is never held
-- by the released claim: the commit of the grant waits for the disk, and so for everything that was committed before
-- it.
-- $1 names, without duplicates
-- $2 the claims
-- $3 whether the releases take part in offers
-- $4 the channels of the names
-- $5 the id of an offer
-- $6 the duration of an offer, in µs
-- Result: one row for each name whose row exists and is not locked: name, verdict, whether the release has notified a
-- client, and a column without a meaning. The verdict is `freed`, `not held` or `complex` (the row has a state).
with locked as materialized (
    select name, owner, expires, starving, wanted, state is null as is_plain, clock_timestamp() as now
    from bandog_lease where name = any ($1::text[]) for update skip locked
), judged as materialized (
    select a.*, l.starving, l.wanted, l.now, case
        when not is_plain then 'complex'
        when owner = id and expires > now then 'freed'
        else 'not held'
    end as verdict
    from unnest($1::text[], $2::text[], $3::boolean[], $4::text[]) as a (name, id, offers, channel)
    join locked l on l.name = a.name
), written as (
    update bandog_lease l set
        owner = case when j.verdict = 'not held' then l.owner when j.starving then $5::text end,
        expires = case when j.verdict = 'not held' then l.expires
            when j.starving then j.now + $6::bigint * interval '1 microsecond' end,
        starving = false,
        wanted = l.wanted and j.verdict = 'not held'
    from judged j
    where l.name = any ($1::text[]) and l.name = j.name and (j.verdict = 'freed' or j.verdict = 'not held' and j.offers and j.starving)
)
select j.name, j.verdict, case when j.verdict = 'freed' and j.wanted then pg_notify(j.channel, '') end is not null,
    (select set_config('synchronous_commit', 'off', true))
from judged j
