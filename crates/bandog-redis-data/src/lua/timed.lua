-- Timed maps, as RMapCache has them. The bytes of an entry are its idle time in ms (0: none) as a double, the length of its value
-- as 8 bytes and the value; numbers are little-endian. Bytes with another layout are a value that does not expire.
--
-- KEYS[1] the map: a hash  KEYS[2] the times in ms at which entries end  KEYS[3] the times at which they end if they are not
--         read: sorted sets  KEYS[4] of a bounded map, the last use in ms or the number of uses: a sorted set
-- KEYS[5] max-size, mode (LRU or LFU), has-listeners: a hash
-- ARGV[1] the verb: a command of a hash, or insert, take, swap, set_life, left, bound, listen, evict, page
-- ARGV[2] the name in the keys and channels of entries
-- ARGV[3] the ttl in ms and ARGV[4] the idle time in ms of written entries, or ''
-- ARGV[5] and so on: the arguments
local map, ends, idle_ends, uses, options = unpack(KEYS)
local verb, tag, ttl, idle = ARGV[1], ARGV[2], tonumber(ARGV[3]) or 0, tonumber(ARGV[4]) or 0
must_be(map, 'hash')
local now = math.floor(micros() / 1000)
local bound, mode, has_listeners = unpack(redis.call('HMGET', options, 'max-size', 'mode', 'has-listeners'))
bound = tonumber(bound) or 0

local function unpacked(bytes)
    local is_entry, its_idle, value = pcall(struct.unpack, 'dLc0', bytes)
    if is_entry and #value + 16 == #bytes then return value, its_idle end
    return bytes, 0
end

local function publish(event, ...)
    local message = ''
    for _, part in ipairs({...}) do message = message .. struct.pack('Lc0', #part, part) end
    redis.pcall('publish', 'redisson_map_cache_' .. event .. ':' .. tag, message)
end

local function drop(field)
    redis.call('HDEL', map, field)
    for _, key in ipairs({ends, idle_ends, uses}) do redis.call('ZREM', key, field) end
    redis.call('DEL', 'redisson__map__lease:' .. tag .. ':' .. field)
end

-- The time at which an entry ends.
local function end_of(field, its_idle)
    local at = tonumber(redis.call('ZSCORE', ends, field)) or math.huge
    if its_idle == 0 then return at end
    return math.min(at, tonumber(redis.call('ZSCORE', idle_ends, field)) or math.huge)
end

-- The value and the idle time of an entry, or nil. One that has expired is removed, and the third result is true.
local function find(field)
    local bytes = redis.call('HGET', map, field)
    if not bytes then return nil end
    local value, its_idle = unpacked(bytes)
    if end_of(field, its_idle) > now then return value, its_idle end
    publish('expired', field, value)
    drop(field)
    return nil, nil, true
end

local function touch(field, its_idle)
    if its_idle > 0 then redis.call('ZADD', idle_ends, now + its_idle, field) end
    if bound == 0 then return end
    if mode == 'LFU' then redis.call('ZINCRBY', uses, 1, field) else redis.call('ZADD', uses, now, field) end
end

-- Removes entries of a full map, but not this one.
local function shrink(kept)
    local size = bound > 0 and redis.call('HLEN', map) or 0
    local surplus = math.min(size - bound, 1000)
    local function remove(field)
        if surplus <= 0 or field == kept or field == 'redisson__expiretag' then return end
        local bytes = redis.call('HGET', map, field)
        if bytes then surplus = surplus - 1 end
        drop(field)
        if bytes and has_listeners then publish('removed', field, (unpacked(bytes))) end
    end
    if surplus <= 0 then return end
    if redis.call('ZCARD', uses) < size then -- Entries that were not used since the map is bounded.
        for _, field in ipairs(redis.call('HRANDFIELD', map, surplus + 10)) do
            if not redis.call('ZSCORE', uses, field) then remove(field) end
        end
    end
    for _, field in ipairs(redis.call('ZRANGE', uses, 0, surplus + 1)) do remove(field) end
end

-- New keys get the ttl of the map. The options of a map that had no entries for a while have still the ttl of the former ones.
local function share_ttl()
    local left = redis.call('PTTL', map)
    if left < 0 then
        if left == -1 and (bound > 0 or has_listeners) then redis.call('PERSIST', options) end
        return
    end
    for at = 2, #KEYS do
        if redis.call('PTTL', KEYS[at]) == -1 then set_ttl(KEYS[at], left) end
    end
end

local function set_life(field, value)
    redis.call('HSET', map, field, struct.pack('dLc0', idle, #value, value))
    if ttl > 0 then redis.call('ZADD', ends, now + ttl, field) else redis.call('ZREM', ends, field) end
    if idle == 0 then redis.call('ZREM', idle_ends, field) end
    touch(field, idle)
    share_ttl()
end

-- Writes an entry whose present value is `old`, or nil. It keeps the life that it has if there is an idle time.
local function write(field, value, old, its_idle)
    redis.call('DEL', 'redisson__map__lease:' .. tag .. ':' .. field)
    if old and its_idle then
        redis.call('HSET', map, field, struct.pack('dLc0', its_idle, #value, value))
        touch(field, its_idle)
    else
        set_life(field, value)
    end
    if has_listeners and old then publish('updated', field, value, old) end
    if has_listeners and not old then publish('created', field, value) end
    shrink(field)
end

-- Removes an entry. Returns its value.
local function remove(field)
    local value = find(field)
    if value then
        drop(field)
        if has_listeners then publish('removed', field, value) end
    end
    return value
end

-- Removes entries that have expired, at most this number. Returns the number.
local function evict(at_most)
    local removed = 0
    for _, key in ipairs({ends, idle_ends}) do
        for _, field in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, at_most - removed)) do
            local value, _, has_expired = find(field)
            if has_expired then
                removed = removed + 1
            elseif value then -- Java leaves such times of entries that live.
                redis.call('ZREM', key, field)
            else
                drop(field)
            end
        end
    end
    return removed
end

local field = ARGV[5]
if verb == 'HMGET' then
    local values = {}
    for at = 5, #ARGV do
        local value, its_idle = find(ARGV[at])
        if value then touch(ARGV[at], its_idle) end
        values[at - 4] = value or false
    end
    return values
elseif verb == 'HSET' then
    for at = 5, #ARGV, 2 do write(ARGV[at], ARGV[at + 1], find(ARGV[at]), nil) end
    return 1
elseif verb == 'insert' then
    local old = find(field)
    write(field, ARGV[6], old)
    return old
elseif verb == 'HSETNX' then
    if find(field) then return 0 end
    write(field, ARGV[6])
    return 1
elseif verb == 'HDEL' then
    local removed = 0
    for at = 5, #ARGV do removed = removed + (remove(ARGV[at]) and 1 or 0) end
    return removed
elseif verb == 'take' then
    return remove(field)
elseif verb == 'swap' then
    -- ARGV[6] '1' if a value is expected, ARGV[7] these bytes, ARGV[8] '1' if a value is written, ARGV[9] these bytes
    local old, its_idle = find(field)
    if (old or false) ~= (ARGV[6] == '1' and ARGV[7]) then return 0 end
    if ARGV[8] == '1' then write(field, ARGV[9], old, its_idle) elseif old then remove(field) end
    return 1
elseif verb == 'HINCRBY' or verb == 'HINCRBYFLOAT' then
    -- The server adds to a field, so the field has the bare number for this moment.
    local old, its_idle = find(field)
    local bytes = redis.call('HGET', map, field)
    redis.call('HSET', map, field, old or '0')
    local sum = redis.pcall(verb, map, field, ARGV[6])
    local value = redis.call('HGET', map, field)
    if bytes then redis.call('HSET', map, field, bytes) elseif type(sum) == 'table' then redis.call('HDEL', map, field) end
    if type(sum) == 'table' then return sum end
    write(field, value, old, its_idle)
    return value
elseif verb == 'set_life' then
    local value = find(field)
    if value then set_life(field, value) end
    return value and 1 or 0
elseif verb == 'left' then
    local value, its_idle = find(field)
    if not value then return -2 end
    local left = end_of(field, its_idle) - now
    return left < 9e15 and left or -1 -- Java writes times that are no time.
elseif verb == 'bound' then
    -- ARGV[5] the number of entries, ARGV[6] the mode
    if ARGV[5] == '0' then
        redis.call('HDEL', options, 'max-size', 'mode')
        redis.call('DEL', uses)
    else
        if mode and mode ~= ARGV[6] then redis.call('DEL', uses) end
        redis.call('HSET', options, 'max-size', ARGV[5], 'mode', ARGV[6])
        bound, mode = tonumber(ARGV[5]), ARGV[6]
        shrink()
        share_ttl()
    end
    return 1
elseif verb == 'listen' then
    redis.call('HSET', options, 'has-listeners', 1)
    share_ttl()
    return 1
elseif verb == 'evict' then
    -- ARGV[5] the maximum number, ARGV[6] the pause in ms
    local latch, at_most = 'redisson__execute_task_once_latch:' .. tag, tonumber(ARGV[5])
    if redis.call('EXISTS', ends, idle_ends) == 0 then return 0 end
    if not redis.call('SET', latch, 1, 'NX', 'PX', ARGV[6]) then return -1 end
    local removed = evict(at_most)
    -- There may be more, or there is nothing left.
    if removed == at_most or redis.call('EXISTS', map) == 0 then redis.call('DEL', latch) end
    return removed
elseif verb == 'HLEN' then
    evict(1000)
    local expired = redis.call('ZCOUNT', ends, '-inf', now) + redis.call('ZCOUNT', idle_ends, '-inf', now)
    return math.max(redis.call('HLEN', map) - expired, 0)
elseif verb == 'page' then
    -- ARGV[5] where the page begins, ARGV[6] and ARGV[7] its numbers of entries and of bytes, as those of the script `page`
    local function read(from, number)
        local next, found = unpack(redis.call('HSCAN', map, from, 'COUNT', number))
        local entries = {}
        for at = 1, #found, 2 do
            local value, its_idle = unpacked(found[at + 1])
            if end_of(found[at], its_idle) > now then
                entries[#entries + 1] = found[at]
                entries[#entries + 1] = value
            end
        end
        return next, entries
    end
    return {read_page(ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), read)}
end
