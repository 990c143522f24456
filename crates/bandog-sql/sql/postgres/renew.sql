-- Renews holds of mutexes without a queue. It locks its rows in the order of their names. Rows that another transaction has
-- locked are skipped. The lock allows the transactions of nodes that only need the hold (`hold_leases`).
-- $1 names, in any order, with duplicates
-- $2 the claims
-- $3 the ttls, in µs
-- Result: one row for each claim: name, claim, verdict. The verdict is `extended`, `gone`, or `complex` (the row has a
-- state, is skipped, or has changed during the statement).
with asked as (
    select * from unnest($1::text[], $2::text[], $3::bigint[]) as asked (name, id, ttl)
), locked as materialized (
    select l.name, a.id, a.ttl from bandog_lease l join asked a on a.name = l.name
    where l.owner = a.id and l.state is null and l.expires > clock_timestamp() order by l.name
    for no key update of l skip locked
), written as (
    update bandog_lease l set expires = clock_timestamp() + k.ttl * interval '1 microsecond'
    from locked k where l.name = k.name and l.owner = k.id and l.state is null and l.expires > clock_timestamp()
    returning l.name, k.id
)
select a.name, a.id, case
    when w.name is not null then 'extended'
    when l.state is not null or l.owner = a.id then 'complex'
    else 'gone'
end
from asked a
left join written w on w.name = a.name and w.id = a.id
left join bandog_lease l on l.name = a.name
