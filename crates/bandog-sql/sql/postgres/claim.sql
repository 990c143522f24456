-- Claims mutexes. This statement contains the rules of `LockState` for mutexes without a queue. Rows that another
-- transaction has locked are skipped: transactions of users can keep them for any time.
--
-- Each table is read by `any ($1)`: without it, a plan that was made while the tables were small could read a whole index.
-- The updates do not find their rows by `ctid`: the statement would not see a row that was changed after its beginning.
-- The time of a row is read before the row is locked. If the row has changed since the statement began, it is read again,
-- and the time too. So nothing happened to the row between this time and the lock.
-- $1 names, without duplicates
-- $2 the claims
-- $3 the claims that the claims of $2 replace; null for a claim that replaces none
-- $4 the ttls, in µs
-- $5 the numbers of fences
-- $6 whether the clients starve
-- $7 whether the clients have subscribers, which a release must notify
-- $8 the id of an offer
-- Result: one row for each name whose rows exist and are not locked: name, verdict, last fence, remaining µs of the present
-- hold. The verdict is `granted`, `again` (the claim holds the lock already), `busy` or `complex` (the row has a state).
with locked as materialized (
    select l.name, l.owner, l.expires, l.starving, l.wanted, l.state is null as is_plain, f.fence,
        clock_timestamp() as now
    from bandog_lease l join bandog_fence f on f.name = l.name
    where l.name = any ($1::text[]) and f.name = any ($1::text[]) for update skip locked
), judged as materialized (
    select a.*, l.expires, l.starving, l.wanted, l.now, case
        when not is_plain then 'complex'
        when owner is null or expires <= now then 'granted'
        when owner = id then 'again'
        when owner = other or owner = $8::text and offers then 'granted'
        else 'busy'
    end as verdict, owner is not null and expires > now as is_held, l.fence,
        greatest(l.fence, (date_part('epoch', now) * 1000000)::bigint) + fences as next
    from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::boolean[], $7::boolean[])
        as a (name, id, other, ttl, fences, offers, waits)
    join locked l on l.name = a.name
), fenced as (
    update bandog_fence f set fence = j.next
    from judged j where f.name = any ($1::text[]) and f.name = j.name and j.verdict = 'granted'
), written as (
    update bandog_lease l set
        owner = case when j.verdict = 'busy' then l.owner else j.id end,
        expires = case when j.verdict = 'busy' then l.expires
            else greatest(case when j.verdict = 'again' then l.expires end, j.now + j.ttl * interval '1 microsecond') end,
        starving = case when j.verdict = 'busy' then l.starving or j.offers else l.starving and j.is_held end,
        wanted = l.wanted or j.verdict = 'busy' and j.waits
    from judged j
    where l.name = any ($1::text[]) and l.name = j.name and (j.verdict in ('granted', 'again')
        or j.verdict = 'busy' and (j.offers and not j.starving or j.waits and not j.wanted))
)
select name, verdict, case when verdict = 'granted' then next else fence end,
    (date_part('epoch', expires - now) * 1000000)::bigint
from judged
