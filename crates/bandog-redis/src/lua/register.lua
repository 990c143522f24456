-- Writes a client's row in the registry, with a ttl, and replaces its earlier row.
--
-- KEYS: member
-- ARGV: ttl in ms, host, pid, program, since, prefix, waits, blocked
-- Reply: 1
--
-- If the ttl cannot be set, the row is deleted, because a row without a ttl would stay forever.

local member, ttl = KEYS[1], ARGV[1]
redis.call('hset', member, 'host', ARGV[2], 'pid', ARGV[3], 'program', ARGV[4], 'since', ARGV[5],
    'prefix', ARGV[6], 'waits', ARGV[7], 'blocked', ARGV[8])
local done = redis.pcall('pexpire', member, ttl)
if type(done) == 'table' then redis.call('del', member) end
return done
