-- Reads the numbers of channels.
-- $1 channels
-- Result: rows of name, number. A channel that was not notified for long has no row.
select name, number from bandog_channel where name in ($1)
