-- Writes the version of the tables of the layout 2.
-- Parameters: none.
-- Result: none.
update bandog_meta set value = '2' where name = 'work'
