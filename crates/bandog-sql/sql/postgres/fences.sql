-- Reads a part of all names, with their last fences.
-- $1 the last name of the part before; empty for the first part
-- Result: at most 1000 rows of name, fence, the time at which the transaction began; sorted by name.
select name, fence, now() from bandog_fence where name > $1::text order by name limit 1000
