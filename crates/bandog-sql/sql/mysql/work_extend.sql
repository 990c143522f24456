-- Extends the leases of locked elements.
-- $1 ids, $2 the lease in microseconds
-- Result: none.
update bandog_work e force index (primary) set e.at = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + $2
where e.queue = @bandog_queue and e.id in ($1) and e.phase = 3
