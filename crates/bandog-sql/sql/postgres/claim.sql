-- Claims free mutexes. This statement contains the rules of `LockState` for mutexes without a queue. It locks its rows in
-- the order of their names; rows that another transaction has locked are skipped. A second variant of the statement
-- waits for the rows of leases. It also skips the rows of fences, which transactions of users can keep for any time.
-- $1 names, sorted, without duplicates
-- $2 the claims
-- $3 the claims that the claims of $2 replace; null for a claim that replaces none
-- $4 the ttls, in µs
-- $5 the numbers of fences
-- $6 whether the clients starve
-- $7 whether the clients have subscribers, which a release must notify
-- $8 the id of an offer
-- Result: one row for each name: name, verdict, last fence, remaining µs of the present hold. The verdict is `granted`,
-- `again` (the claim holds the lock already), `busy`, `complex` (the row has a state), or null (no row, or it is skipped).
with asked as (
    select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::boolean[], $7::boolean[])
        as asked (name, id, other, ttl, fences, offers, waits)
), locked as materialized (
    select l.name, l.owner, l.expires, l.starving, l.wanted, l.state is null as is_plain, f.fence
    from bandog_lease l join bandog_fence f on f.name = l.name
    where l.name = any ($1::text[]) order by l.name for update of l, f skip locked
), timed as materialized (
    select a.*, l.owner, l.expires, l.starving, l.wanted, l.is_plain, l.fence, clock_timestamp() as now
    from asked a join locked l on l.name = a.name
), judged as materialized (
    select *, case
        when not is_plain then 'complex'
        when owner is null or expires <= now then 'granted'
        when owner = id then 'again'
        when owner = other or owner = $8::text and offers then 'granted'
        else 'busy'
    end as verdict, owner is not null and expires > now as is_held
    from timed
), fenced as (
    update bandog_fence f
    set fence = greatest(f.fence, (extract(epoch from j.now) * 1000000)::bigint) + j.fences
    from judged j where f.name = j.name and j.verdict = 'granted'
    returning f.name, f.fence
), written as (
    update bandog_lease l set
        owner = case when j.verdict = 'busy' then l.owner else j.id end,
        expires = case when j.verdict = 'busy' then l.expires else j.now + j.ttl * interval '1 microsecond' end,
        starving = case when j.verdict = 'busy' then l.starving or j.offers else l.starving and j.is_held end,
        wanted = l.wanted or j.verdict = 'busy' and j.waits
    from judged j
    where l.name = j.name and (j.verdict in ('granted', 'again')
        or j.verdict = 'busy' and (j.offers and not j.starving or j.waits and not j.wanted))
)
select a.name, j.verdict, coalesce(f.fence, j.fence), (extract(epoch from j.expires - j.now) * 1000000)::bigint
from asked a left join judged j on j.name = a.name left join fenced f on f.name = a.name
