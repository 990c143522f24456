-- The elements of a push in a transaction of the user.
select g.*, decode(g.body, 'hex') as payload, convert_from(decode(g.key, 'hex'), 'UTF8') as order_key,
    convert_from(decode(g.once_id, 'hex'), 'UTF8') as once
from json_to_recordset($2::text::json) as g (ord bigint, id uuid, priority smallint, delay bigint, due bigint, key text,
        once_id text, span bigint, keep bigint, before uuid, waits_for int, body text)
