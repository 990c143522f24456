-- Releases one mutex for which no client waits, in less time than the statement for many names, which decides all other
-- releases. If another transaction has locked the row, nothing is changed. The commit does not wait for the disk, as in
-- `release`.
-- $1 the name
-- $2 the claim
-- Result: if the claim is released, one row with a column without a meaning. Otherwise no row.
update bandog_lease
set owner = null, expires = null
where name = $1::text and exists (
    select from bandog_lease
    where name = $1::text and owner = $2::text and expires > clock_timestamp() and state is null
        and not starving and not wanted
    for update skip locked)
returning set_config('synchronous_commit', 'off', true)
