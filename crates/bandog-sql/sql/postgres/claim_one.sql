-- Claims one mutex that is free, in a fifth less time than the statement for many names, which decides all other claims. If
-- another transaction has locked one of the two rows, nothing is changed. The updates do not wait, because the inner query has
-- locked their rows.
-- $1 the name
-- $2 the claim
-- $3 the ttl, in µs
-- $4 the number of fences
-- Result: if the claim is granted, one row: the last fence. Otherwise no row.
with fenced as (
    update bandog_fence
    set fence = greatest(fence, (extract(epoch from clock_timestamp()) * 1000000)::bigint) + $4::bigint
    where name = $1::text and exists (
        select from bandog_lease l, bandog_fence f
        where l.name = $1::text and f.name = $1::text and l.state is null
            and (l.owner is null or l.expires <= clock_timestamp())
        for update skip locked)
    returning fence
)
update bandog_lease
set owner = $2::text, expires = clock_timestamp() + $3::bigint * interval '1 microsecond', starving = false
from fenced where name = $1::text
returning fence
