-- Creates records. Fails if one of them exists.
-- $1 names, sorted, $2 versions, $3 values
-- Result: the names.
insert into bandog_record (name, version, value) values $values(1, 2, 3);
select name from bandog_record where name in ($1)
