-- Claims one mutex. The rules are those of `claim`, the statement for many names, with one name. The server needs about
-- half the time for this one.
-- $1 a list of one name
-- $2, $3, $4, $5, $6, $7 lists of one value, as in `claim`
-- $8 the id of an offer
-- Result: as of `claim`.
with locked as materialized (
    select l.owner, l.expires, l.starving, l.wanted, l.state is null as is_plain, f.fence
    from bandog_lease l join bandog_fence f on f.name = l.name
    where l.name = ($1::text[])[1] and f.name = ($1::text[])[1] for update skip locked
), judged as materialized (
    select a.*, case
        when not is_plain then 'complex'
        when owner is null or expires <= now then 'granted'
        when owner = ($2::text[])[1] then 'again'
        when owner = ($3::text[])[1] or owner = $8::text and ($6::boolean[])[1] then 'granted'
        else 'busy'
    end as verdict, owner is not null and expires > now as is_held
    from (select *, clock_timestamp() as now from locked) a
), fenced as (
    update bandog_fence f
    set fence = greatest(f.fence, (extract(epoch from j.now) * 1000000)::bigint) + ($5::bigint[])[1]
    from judged j where f.name = ($1::text[])[1] and j.verdict = 'granted'
    returning f.fence
), written as (
    update bandog_lease l set
        owner = case when j.verdict = 'busy' then l.owner else ($2::text[])[1] end,
        expires = case when j.verdict = 'busy' then l.expires
            else greatest(case when j.verdict = 'again' then l.expires end,
                j.now + ($4::bigint[])[1] * interval '1 microsecond') end,
        starving = case when j.verdict = 'busy' then l.starving or ($6::boolean[])[1] else l.starving and j.is_held end,
        wanted = l.wanted or j.verdict = 'busy' and ($7::boolean[])[1]
    from judged j
    where l.name = ($1::text[])[1] and (j.verdict in ('granted', 'again')
        or j.verdict = 'busy' and (($6::boolean[])[1] and not j.starving or ($7::boolean[])[1] and not j.wanted))
)
select ($1::text[])[1], j.verdict, coalesce((select fence from fenced), j.fence),
    (extract(epoch from j.expires - j.now) * 1000000)::bigint
from judged j
