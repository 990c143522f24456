-- Releases one mutex. The rules are those of `release`, the statement for many names, with one name. The server needs about
-- half the time for this one. The commit does not wait for the disk, as in `release`.
-- $1 a list of one name
-- $2, $3, $4 lists of one value, as in `release`
-- $5 the id of an offer
-- $6 the duration of an offer, in µs
-- Result: as of `release`.
with locked as materialized (
    select owner, expires, starving, wanted, state is null as is_plain
    from bandog_lease where name = ($1::text[])[1] for update skip locked
), judged as materialized (
    select a.*, case
        when not is_plain then 'complex'
        when owner = ($2::text[])[1] and expires > now then 'freed'
        else 'not held'
    end as verdict
    from (select *, clock_timestamp() as now from locked) a
), written as (
    update bandog_lease l set
        owner = case when j.verdict = 'not held' then l.owner when j.starving then $5::text end,
        expires = case when j.verdict = 'not held' then l.expires
            when j.starving then j.now + $6::bigint * interval '1 microsecond' end,
        starving = false,
        wanted = l.wanted and j.verdict = 'not held'
    from judged j
    where l.name = ($1::text[])[1]
        and (j.verdict = 'freed' or j.verdict = 'not held' and ($3::boolean[])[1] and j.starving)
)
select ($1::text[])[1], j.verdict, case when j.verdict = 'freed' and j.wanted then pg_notify(($4::text[])[1], '')::text end,
    set_config('synchronous_commit', 'off', true)
from judged j
