-- Reads the first 1000 elements of a phase.
-- $1 the phase
-- Result: the ids.
select lower(hex(e.id)) from bandog_work e force index (in_order)
where e.queue = @bandog_queue and e.phase = $1 order by e.line, e.at, e.id limit 1000
