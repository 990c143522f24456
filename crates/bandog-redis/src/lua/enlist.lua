-- Writes the expiry of a client's row to the index of clients, and removes some expired clients from the index.
--
-- KEYS: index
-- ARGV: client, ttl in ms, maximum number of clients to remove
-- Reply: number of removed clients
--
-- The index expires together with the client that expires last.

local index, client, ttl, most = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local ended = redis.call('zrangebyscore', index, '-inf', string.format('%.0f', now), 'limit', 0, most)
if #ended > 0 then redis.call('zrem', index, unpack(ended)) end
redis.call('zadd', index, string.format('%.0f', now + ttl), client)
if redis.call('pttl', index) < ttl then redis.call('pexpire', index, ARGV[2]) end
return #ended
