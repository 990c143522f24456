-- The answer of `work_push` in a transaction of the user: 1, or the conversion to a number fails.
-- $4 the id of the store
select (case
    when (select value from $schema.bandog_meta where name = 'id') is distinct from $4::text or not exists (select from q)
        then 'bandog: this is not the database of the lock'
    when (select count(*) from notified) >= 0 then '1'
end)::bigint as fence
