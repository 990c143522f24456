-- Creates records.
-- $1 names, sorted, $2 versions, $3 values
-- Result: the names of the records that were created. A record that exists is left as it is.
insert into bandog_record (name, version, value)
select name, version, value from unnest($1::text[], $2::bigint[], $3::bytea[]) as given (name, version, value) order by name
on conflict do nothing returning name
