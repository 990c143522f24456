-- Creates a record in a transaction of the user, at most once, if another record contains a text. Locks no other record,
-- except obsolete ones that no transaction uses and that are older than ten minutes: the program of an attempt that ended
-- long ago can learn until then that its run was completed. Only the first 100 obsolete names are read; the names of a job
-- rise with time, so these are the oldest. `$schema` is replaced by the schema of the tables.
--
-- If another transaction has created the same record and is still open, the statement waits for its end.
-- $1 the name of the new record
-- $2 the name of the other record
-- $3 the text
-- $4 the id of the store
-- $5, $6 the first obsolete name, and the first name after these. Obsolete names have the length of $1
-- Result: 1. If a condition is not met, the conversion to a number fails, and its error has the reason.
with removed as (
    delete from $schema.bandog_record where name in (
        select r.name from $schema.bandog_record r
        where r.name in (
                select name from $schema.bandog_record
                where name >= $5::text and name < $6::text and length(name) = length($1::text)
                order by name limit 100
            )
            and r.version < (extract(epoch from clock_timestamp() - interval '10 minutes') * 1000000)::bigint
        for update skip locked
    )
), marked as (
    insert into $schema.bandog_record (name, version, value)
    values ($1::text, (extract(epoch from clock_timestamp()) * 1000000)::bigint, convert_to('done', 'UTF8'))
    on conflict do nothing returning name
)
select (case
    when (select value from $schema.bandog_meta where name = 'id') is distinct from $4::text
        then 'bandog: this is not the database of the lock'
    when current_setting('transaction_isolation') <> 'read committed'
        then 'bandog: a run can be completed at the isolation level READ COMMITTED only'
    when not exists (select from marked) then 'bandog: this run was completed already'
    when exists (
            select from $schema.bandog_record
            where name = $2::text and position(convert_to($3::text, 'UTF8') in value) > 0
        )
        then '1'
    else 'bandog: this run has ended, or another node has taken it over'
end)::bigint as fence
