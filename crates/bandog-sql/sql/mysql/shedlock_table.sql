-- Reads the columns of a table of other programs.
-- $1 the database of the table, $2 the table
-- Result: rows of column, type, maximum length of a text (null: none), digits of the seconds (null: not a time), character
-- set, collation, whether this column alone is the primary key, whether it alone is a unique key.
select lower(c.column_name), lower(c.data_type), c.character_maximum_length, c.datetime_precision, c.character_set_name,
    c.collation_name, coalesce(k.is_primary, 0), k.name is not null
from information_schema.columns c left join (
    select name, max(is_primary) as is_primary from (
        select min(column_name) as name, index_name = 'PRIMARY' as is_primary
        from information_schema.statistics
        where table_schema = _utf8mb4 $1 and table_name = _utf8mb4 $2 and non_unique = 0
        group by index_name having count(*) = 1 and max(sub_part) is null
    ) keys_of_one_column group by name
) k on k.name = c.column_name
where c.table_schema = _utf8mb4 $1 and c.table_name = _utf8mb4 $2
