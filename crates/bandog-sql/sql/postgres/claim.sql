-- Claims free mutexes. This statement contains the rules of `LockState` for mutexes without a queue. It locks its rows in
-- the order of their names, and the rows of fences after those of leases. Rows that another transaction has locked are
-- skipped: transactions of users can keep them for any time.
-- $1 names, sorted, without duplicates
-- $2 the claims
-- $3 the claims that the claims of $2 replace; null for a claim that replaces none
-- $4 the ttls, in µs
-- $5 the numbers of fences
-- $6 whether the clients starve
-- $7 whether the clients have subscribers, which a release must notify
-- $8 the id of an offer
-- Result: one row for each name: name, verdict, last fence, remaining µs of the present hold. The verdict is `granted`,
-- `again` (the claim holds the lock already), `busy`, `complex` (the row has a state), `kept` (the claim could be granted,
-- but the row of the fence is missing or locked), or null (the row of the lease is missing or locked).
with asked as (
    select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::boolean[], $7::boolean[])
        as asked (name, id, other, ttl, fences, offers, waits)
), locked as materialized (
    select name, owner, expires, starving, wanted, state is null as is_plain
    from bandog_lease where name = any ($1::text[]) order by name for update skip locked
), timed as materialized (
    select a.*, l.owner, l.expires, l.starving, l.wanted, l.is_plain, clock_timestamp() as now
    from asked a join locked l on l.name = a.name
), judged as materialized (
    select *, case
        when not is_plain then 'complex'
        when owner is null or expires <= now then 'granted'
        when owner = id then 'again'
        when owner = other or owner = $8::text and offers then 'granted'
        else 'busy'
    end as ruling, owner is not null and expires > now as is_held
    from timed
), needed as materialized (
    select f.name, f.fence from judged j join bandog_fence f on f.name = j.name
    where j.ruling in ('granted', 'again') order by f.name for update of f skip locked
), decided as materialized (
    select j.*, n.fence,
        case when j.ruling in ('granted', 'again') and n.name is null then 'kept' else j.ruling end as verdict
    from judged j left join needed n on n.name = j.name
), fenced as (
    update bandog_fence f
    set fence = greatest(f.fence, (extract(epoch from j.now) * 1000000)::bigint) + j.fences
    from decided j where f.name = j.name and j.verdict = 'granted'
    returning f.name, f.fence
), written as (
    update bandog_lease l set
        owner = case when j.verdict = 'busy' then l.owner else j.id end,
        expires = case when j.verdict = 'busy' then l.expires else j.now + j.ttl * interval '1 microsecond' end,
        starving = case when j.verdict = 'busy' then l.starving or j.offers else l.starving and j.is_held end,
        wanted = l.wanted or j.verdict = 'busy' and j.waits
    from decided j
    where l.name = j.name and (j.verdict in ('granted', 'again')
        or j.verdict = 'busy' and (j.offers and not j.starving or j.waits and not j.wanted))
)
select a.name, j.verdict, coalesce(f.fence, j.fence), (extract(epoch from j.expires - j.now) * 1000000)::bigint
from asked a left join decided j on j.name = a.name left join fenced f on f.name = a.name
