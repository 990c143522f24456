-- Keeps a setting that all clients share, unless one with this name exists.
-- $1 name
-- $2 text
-- Result: none.
insert ignore into bandog_meta (name, value) values ($1, $2)
