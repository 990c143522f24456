-- Reads the columns of ShedLock's table.
-- $1 the database of the table, $2 the table
-- Result: rows of column, type, maximum length of a text (null: none), digits of the seconds (null: not a time), character
-- set, collation, whether the primary key begins with this column, whether it or another unique key does.
select lower(column_name), lower(data_type), character_maximum_length, datetime_precision, character_set_name,
    collation_name, column_key = 'PRI', column_key in ('PRI', 'UNI')
from information_schema.columns where table_schema = _utf8mb4 $1 and table_name = _utf8mb4 $2
