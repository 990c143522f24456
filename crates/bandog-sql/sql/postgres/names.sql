-- Reads the names of the records whose names begin with a text.
-- $1 the text
-- Result: rows of name, sorted. The upper limit is greater than each name that has the text and the length of a name.
select name from bandog_record where name between $1::text and $1::text || repeat(chr(1114111), 256) order by name
