-- Reads the rights that the user lacks. It reads the catalogue only, so it needs no right on the schemas and tables.
-- $1 the schema of each table, $2 its name, $3 the rights on it that locks need, with a blank between two; the rights on a
-- table of bandog include `delete`. $4 the schema of the tables of bandog
-- Result: the right, and the object as a grant names it. A right on all columns of a table is one on the table.
with needed as (
    select place, schema, name, string_to_array(rights, ' ') as rights
    from unnest($1::text[], $2::text[], $3::text[]) with ordinality n (schema, name, rights, place)
), found as (
    select needed.*, c.oid from needed join pg_namespace n on n.nspname = needed.schema
        join pg_class c on c.relnamespace = n.oid and c.relname = needed.name
), is_incomplete as (
    select from needed where 'delete' = any(rights) and place not in (select place from found)
), missing as (
    select 'usage' as name, format('schema %I', n.nspname) as object, 0::bigint as place, 0::bigint as part from pg_namespace n
        where n.nspname in (select schema from needed) and not has_schema_privilege(n.oid, 'usage')
    union all
    select 'create', format('schema %I', n.nspname), 1, 0 from pg_namespace n
        where n.nspname = $4::text and exists (select from is_incomplete) and not has_schema_privilege(n.oid, 'create')
    union all
    select 'create', format('database %I', current_database()), 1, 0
        where not exists (select from pg_namespace n where n.nspname = $4::text)
            and not has_database_privilege(current_database(), 'create')
    union all
    select r.name, format('%I.%I', f.schema, f.name), 1 + f.place, r.part
        from found f cross join unnest(f.rights) with ordinality r (name, part)
        where not case r.name when 'delete' then has_table_privilege(f.oid, 'delete') else
            (select bool_and(has_column_privilege(f.oid, a.attnum, r.name)) from pg_attribute a
                where a.attrelid = f.oid and a.attnum > 0 and not a.attisdropped) end
)
select name, object from missing order by place, object, part
