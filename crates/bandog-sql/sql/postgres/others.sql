-- Lists the other sets of bandog's tables in this database. Each user can read the catalogue.
-- $1 the schema of this client, $2 the beginning of the names of its tables
-- Result: the schema and the beginning of the names of each other set, at most 20 rows.
select n.nspname::text, left(c.relname, -4)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and right(c.relname, 4) = 'meta'
        and (n.nspname::text, left(c.relname, -4)) <> ($1::text, $2::text)
        and 3 = (select count(*) from pg_class t where t.relnamespace = c.relnamespace
            and t.relname in (left(c.relname, -4) || 'fence', left(c.relname, -4) || 'lease', left(c.relname, -4) || 'record'))
    order by 1, 2 limit 20
