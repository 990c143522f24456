-- Reads the columns of a table of other programs.
-- $1 the schema of the table, $2 the table
-- Result: rows of column, type, maximum length of a text (null: none), digits of the seconds (null: not a time), character
-- set, collation, whether a unique key is this column, and the same again.
select a.attname::text, t.typname::text,
    case when t.typname = 'varchar' and a.atttypmod > 4 then (a.atttypmod - 4)::bigint end,
    case when t.typname in ('timestamp', 'timestamptz') then
        case when a.atttypmod < 0 then 6 else a.atttypmod end::bigint end,
    'utf8mb4', 'default',
    k.is_key, k.is_key
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    join pg_type t on t.oid = a.atttypid
    cross join lateral (select exists (select from pg_index i where i.indrelid = c.oid and i.indisunique
        and i.indnkeyatts = 1 and i.indkey[0] = a.attnum and i.indpred is null) as is_key) k
where n.nspname = $1::text and c.relname = $2::text and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
