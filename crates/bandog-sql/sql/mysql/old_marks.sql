-- Reads names of completed runs that are older than ten minutes, and locks their rows. The program of an attempt that ended
-- long ago can learn until then that its run was completed. The names of a job rise with time, so only the first 100 are
-- read. Rows that a transaction uses are left out.
-- $1, $2 the first name, and the first name after these; $3 the length of the names in bytes
-- Result: rows of name, sorted.
select r.name from (
    select name from bandog_record force index (primary)
    where name >= $1 and name < $2 and length(name) = $3 order by name limit 100
) oldest straight_join bandog_record r force index (primary) on r.name = oldest.name
where r.version < timestampdiff(microsecond, '1970-01-01', utc_timestamp(6) - interval 10 minute)
order by r.name
for update skip locked
