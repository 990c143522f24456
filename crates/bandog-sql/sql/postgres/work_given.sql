-- The elements of a push.
-- $4 the payloads
select g.*, p.payload, convert_from(decode(g.key, 'hex'), 'UTF8') as order_key, convert_from(decode(g.once_id, 'hex'), 'UTF8') as once
from json_to_recordset($2::text::json) as g (ord bigint, id uuid, priority smallint, delay bigint, due bigint, key text,
        once_id text, span bigint, keep bigint, before uuid, waits_for int)
    join unnest($4::bytea[]) with ordinality p (payload, ord) on p.ord = g.ord
