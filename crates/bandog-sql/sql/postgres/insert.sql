-- Creates the rows of free locks, if they do not exist.
-- $1 names, sorted
-- Result: none.
with fences as (
    insert into bandog_fence (name, fence) select n, 0 from unnest($1::text[]) n order by n on conflict do nothing
)
insert into bandog_lease (name) select n from unnest($1::text[]) n order by n on conflict do nothing
