-- Renews holds of mutexes without a queue, and shortens none. Of several renewals of a claim, the longest counts.
-- Rows that another transaction has locked are skipped. The lock allows the transactions of nodes that only need the
-- hold (`hold_leases`). As in the statement for claims, each table is read by `any ($1)`, or by one name.
-- $1 names, in any order, with duplicates
-- $2 the claims
-- $3 the ttls, in µs
-- Result: one row for each claim: name, claim, verdict. The verdict is `extended`, `gone`, or `complex` (the row has a
-- state, is skipped, or has changed during the statement).
with asked as materialized (
    select name, id, max(ttl) as ttl from unnest($1::text[], $2::text[], $3::bigint[]) as asked (name, id, ttl)
    group by name, id
), locked as materialized (
    select l.name, a.id, a.ttl from bandog_lease l join asked a on a.name = l.name
    where l.name = any ($1::text[]) and l.owner = a.id and l.state is null and l.expires > clock_timestamp()
    for no key update of l skip locked
), written as (
    update bandog_lease l set expires = greatest(l.expires, clock_timestamp() + k.ttl * interval '1 microsecond')
    from locked k where l.name = any ($1::text[]) and l.name = k.name and l.owner = k.id and l.state is null and l.expires > clock_timestamp()
    returning l.name, k.id
)
select a.name, a.id, case when w.name is not null then 'extended' else coalesce(
    (select case when l.state is not null or l.owner = a.id then 'complex' end from bandog_lease l where l.name = a.name),
    'gone') end
from asked a left join written w on w.name = a.name and w.id = a.id
