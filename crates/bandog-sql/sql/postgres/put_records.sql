-- Replaces records whose rows are locked.
-- $1 names, $2 versions, $3 values
-- Result: none.
update bandog_record r set version = g.version, value = g.value
from unnest($1::text[], $2::bigint[], $3::bytea[]) as g (name, version, value)
where r.name = any ($1::text[]) and r.name = g.name
