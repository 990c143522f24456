-- Reads payloads.
-- $1 ids
-- Result: of each element the id and the payload.
select lower(hex(id)), payload from bandog_work_body where queue = @bandog_queue and id in ($1)
