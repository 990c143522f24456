-- Multimaps, as RSetMultimap, RListMultimap and their Cache forms have them.
--
-- KEYS[1] the index: a hash whose fields are keys and whose values are the names of the keys' values
-- KEYS[2] the times at which keys expire: a sorted set
-- KEYS[3] (all but len, keys_len) the values of the key
-- ARGV[1] the verb
-- ARGV[2] 'set' or 'list'
-- ARGV[3] what precedes the name of values in their keys
-- ARGV[4] the key
-- ARGV[5] the name of the key's values
-- ARGV[6] the value; for expire, the time in ms
local index, ttls, values = KEYS[1], KEYS[2], KEYS[3]
local verb, is_set, prefix, key = ARGV[1], ARGV[2] == 'set', ARGV[3], ARGV[4]
must_be(index, 'hash')
local now = math.floor(micros() / 1000)

local function has_expired(of)
    local expires = redis.call('ZSCORE', ttls, of)
    return expires and tonumber(expires) <= now
end

if verb == 'keys_len' then
    -- Java leaves the times of keys whose last values it removes.
    local expired = 0
    for _, of in ipairs(redis.call('ZRANGEBYSCORE', ttls, '-inf', now)) do
        expired = expired + redis.call('HEXISTS', index, of)
    end
    return redis.call('HLEN', index) - expired
end
if verb == 'len' then
    local sum, entries = 0, redis.call('HGETALL', index)
    for at = 1, #entries, 2 do
        if not has_expired(entries[at]) then
            sum = sum + redis.call(is_set and 'SCARD' or 'LLEN', prefix .. entries[at + 1])
        end
    end
    return sum
end

must_be(values, ARGV[2])
-- Values without a key are left over: Java gives new ones no ttl of the multimap, and its evictor misses some.
local is_absent = has_expired(key) or redis.call('HEXISTS', index, key) == 0
local function all()
    if is_absent then return {} end
    return is_set and redis.call('SMEMBERS', values) or redis.call('LRANGE', values, 0, -1)
end
if verb == 'get' then return all() end
if verb == 'contains' then
    if is_absent then return 0 end
    if is_set then return redis.call('SISMEMBER', values, ARGV[6]) end
    return redis.call('LPOS', values, ARGV[6]) and 1 or 0
end

local function remove(of, its_values)
    redis.call('DEL', its_values)
    redis.call('HDEL', index, of)
    redis.call('ZREM', ttls, of)
end
if is_absent then remove(key, values) end
-- Keys that have expired and are not used again are removed a few at a time.
for _, other in ipairs(redis.call('ZRANGEBYSCORE', ttls, '-inf', now, 'LIMIT', 0, 10)) do
    local name = redis.call('HGET', index, other)
    if name then remove(other, prefix .. name) else redis.call('ZREM', ttls, other) end
end

-- A new part gets the ttl of the multimap.
local function share_ttl(part)
    set_ttl(part, redis.call('PTTL', index))
end

if verb == 'insert' then
    redis.call('HSET', index, key, ARGV[5])
    local added = redis.call(is_set and 'SADD' or 'RPUSH', values, ARGV[6])
    if is_absent then share_ttl(values) end
    return is_set and added or 1
end
if verb == 'remove' then
    local removed = is_set and redis.call('SREM', values, ARGV[6]) or redis.call('LREM', values, 1, ARGV[6])
    if removed > 0 and redis.call('EXISTS', values) == 0 then remove(key, values) end
    return removed
end
if verb == 'remove_all' then
    local removed = all()
    remove(key, values)
    return removed
end
if verb == 'expire' then
    if is_absent then return 0 end
    redis.call('ZADD', ttls, now + ARGV[6], key)
    share_ttl(ttls)
    return 1
end
