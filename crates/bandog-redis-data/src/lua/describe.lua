-- The structure and the size of an object, for a list of objects.
--
-- KEYS[1] the name
-- ARGV[1] the sizes if it is a Bloom filter, ARGV[2] the size of a block if it has blocks of ids, ARGV[3] what precedes the
--         name of a multimap's values in their keys, ARGV[4] the operations if it is a latch
-- Reply: the structure, the number of elements (of a value, bytes), the ttl in ms (-1: none); of a map that may be a lock
--        also some fields and their values; or nil
local key = KEYS[1]
local kind, ttl = redis.call('TYPE', key).ok, redis.call('PTTL', key)
if kind == 'string' then
    if redis.call('TYPE', ARGV[4]).ok == 'zset' then return nil end -- A latch.
    local is_hash = redis.call('TYPE', ARGV[1]).ok == 'hash'
    if is_hash and redis.call('HEXISTS', ARGV[1], 'hashIterations') == 1 then return {'bloom', 1, ttl} end
    if redis.call('EXISTS', ARGV[2]) == 1 then return {'ids', 1, ttl} end
    return {'value', redis.call('STRLEN', key), ttl}
elseif kind == 'hash' then
    local size = redis.call('HLEN', key)
    local value = redis.call('HRANDFIELD', key, 1, 'WITHVALUES')[2]
    if value and #value == 22 then
        local values = redis.call('TYPE', ARGV[3] .. value).ok
        if values == 'set' or values == 'list' then return {values .. ' multimap', size, ttl} end
    end
    local is_entry, _, of_entry = pcall(struct.unpack, 'dLc0', value or '')
    if is_entry and #of_entry + 16 == #value then return {'timed map', size, ttl} end
    -- A mutex of Redisson has one field, and a read-write lock a field for its mode.
    local may_be_lock = size == 1 or ({read = true, write = true})[redis.call('HGET', key, 'mode')]
    return {'map', size, ttl, may_be_lock and redis.call('HSCAN', key, 0, 'COUNT', 64)[2] or {}}
elseif kind == 'list' then
    return {'list', redis.call('LLEN', key), ttl}
elseif kind == 'set' then
    return {'set', redis.call('SCARD', key), ttl}
elseif kind == 'stream' then
    return {'journal', redis.call('XLEN', key), ttl}
elseif kind == 'zset' then
    return {'sorted', redis.call('ZCARD', key), ttl}
end
return nil
