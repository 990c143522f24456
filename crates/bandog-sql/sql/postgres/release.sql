-- Releases mutexes. This statement contains the rules of `LockState` for mutexes without a queue. It locks its rows in the
-- order of their names. Rows that another transaction has locked are skipped.
-- $1 names, sorted, without duplicates
-- $2 the claims
-- $3 whether the releases take part in offers
-- $4 the channels of the names
-- $5 the id of an offer
-- $6 the duration of an offer, in µs
-- Result: one row for each name: name, verdict, and a column without a meaning. The verdict is `freed`, `not held`,
-- `complex` (the row has a state) or `locked` (the row is skipped).
with asked as (
    select * from unnest($1::text[], $2::text[], $3::boolean[], $4::text[]) as asked (name, id, offers, channel)
), locked as materialized (
    select name, owner, expires, starving, wanted, state is null as is_plain
    from bandog_lease where name = any ($1::text[]) order by name for update skip locked
), timed as materialized (
    select a.*, l.owner, l.expires, l.starving, l.wanted, l.is_plain, clock_timestamp() as now
    from asked a join locked l on l.name = a.name
), judged as materialized (
    select *, case
        when not is_plain then 'complex'
        when owner = id and expires > now then 'freed'
        else 'not held'
    end as verdict
    from timed
), written as (
    update bandog_lease l set
        owner = case when j.verdict = 'not held' then l.owner when j.starving then $5::text end,
        expires = case when j.verdict = 'not held' then l.expires
            when j.starving then j.now + $6::bigint * interval '1 microsecond' end,
        starving = false,
        wanted = l.wanted and j.verdict = 'not held'
    from judged j
    where l.name = j.name and (j.verdict = 'freed' or j.verdict = 'not held' and j.offers and j.starving)
)
select a.name, coalesce(j.verdict, case when l.name is null then 'not held' else 'locked' end),
    case when j.verdict = 'freed' and j.wanted then pg_notify(a.channel, '')::text end
from asked a left join judged j on j.name = a.name left join bandog_lease l on l.name = a.name
