-- Reads one record.
-- ?1 name
-- Result: no row, or version, value.
select version, value from record where name = ?1;
