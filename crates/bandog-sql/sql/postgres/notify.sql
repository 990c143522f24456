-- Notifies the subscribers of channels, when the transaction commits.
-- $1 channels
-- Result: rows without a meaning.
select pg_notify(channel, '')::text from unnest($1::text[]) channel
