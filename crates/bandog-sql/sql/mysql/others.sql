-- Lists the other sets of bandog's tables in this database, of those that the user may use.
-- $1 the database, $2 the beginning of the names of the tables of this client
-- Result: the database and the beginning of the names of each other set, at most 20 rows.
select m.table_schema, left(m.table_name, char_length(m.table_name) - 4)
    from information_schema.tables m
    where m.table_schema = database() and right(m.table_name, 4) = 'meta'
        and left(m.table_name, char_length(m.table_name) - 4) <> $2
        and 3 = (select count(*) from information_schema.tables t where t.table_schema = database() and t.table_name in (
            concat(left(m.table_name, char_length(m.table_name) - 4), 'fence'),
            concat(left(m.table_name, char_length(m.table_name) - 4), 'lease'),
            concat(left(m.table_name, char_length(m.table_name) - 4), 'record')))
    order by 1, 2 limit 20
