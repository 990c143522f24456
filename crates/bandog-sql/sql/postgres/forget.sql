-- Deletes the rows of a lock.
-- $1 name
-- Result: none.
with fences as (delete from bandog_fence where name = $1::text) delete from bandog_lease where name = $1::text
