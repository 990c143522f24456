-- Elements that are taken out of a list, a set, a sorted set or a group of a journal. They stay here until they are settled or
-- their lease expires.
--
-- KEYS[1] the object
-- KEYS[2] taken: a hash, id -> number of deliveries, score and bytes
-- KEYS[3] the ends of the leases: a sorted set of ids, in ms
-- KEYS[4] elements of a list or a journal that were delivered before: a list of texts as in `taken`, or see `group`
-- KEYS[5] the last id
-- KEYS[6] the answers that are remembered
-- KEYS[7] (move) the other list
-- ARGV[1] the verb
-- ARGV[2] what the object is: list, zset, set or stream
-- ARGV[3] the end: front or back; or the group
local key, taken, leases, again, last, answers = unpack(KEYS)
local verb, kind, is_front = ARGV[1], ARGV[2], ARGV[3] == 'front'
must_be(key, kind)
local time = micros()
local now = math.floor(time / 1000)
-- An element is written to its new place before it is removed from the old one: if the user lacks a right, the script ends
-- at the first command that is refused, and the element is still there.

-- A server whose memory is full refuses a script that begins with a write that needs memory. But these scripts keep leases,
-- and free memory. A user who may not remove elements is refused here: an element would stay, and come again.
if verb ~= 'count' and verb ~= 'peek' then
    redis.call('ZREM', leases, '')
    redis.call('HDEL', taken, '')
end

-- Puts an element back where it was.
local function give_back(score, bytes)
    if kind == 'list' then
        redis.call(is_front and 'LPUSH' or 'RPUSH', key, bytes)
    elseif kind == 'set' then
        redis.call('SADD', key, bytes)
    else
        redis.call('ZADD', key, 'NX', score, bytes) -- A member that was inserted meanwhile keeps its new score.
    end
end

local function remove(id)
    redis.call('ZREM', leases, id)
    return redis.call('HDEL', taken, id)
end

-- Removes an element that is done.
local function finish(id, text)
    if kind == 'stream' and text then
        local _, score = unpacked(text)
        local entry, group = place(score)
        redis.call('XACK', key, group, entry)
    end
    remove(id)
end

-- Adds an element to those that were delivered before. Elements of a list come first or last.
local function add_again(text, is_first)
    if kind == 'list' then
        redis.call(is_first and 'LPUSH' or 'RPUSH', again, text)
    else
        local _, score = unpacked(text)
        redis.call('ZADD', again, 0, again_member(score, text))
    end
end

-- A part that is made gets the ttl of the part from which its first element comes.
local function ttl_for(part, from)
    return redis.call('EXISTS', part) == 0 and redis.call('PTTL', from) or -1
end
local function set_ttl(part, ttl)
    if ttl > 0 then redis.call('PEXPIRE', part, ttl) end
end

local function expire(id)
    local text = redis.call('HGET', taken, id)
    if not text then return remove(id) end -- The server has evicted it.
    local has_again = kind == 'list' or kind == 'stream'
    local to = has_again and again or key
    local ttl = ttl_for(to, taken)
    if has_again then
        add_again(text, false)
    else
        local _, score, bytes = unpacked(text)
        give_back(score, bytes)
    end
    remove(id)
    set_ttl(to, ttl)
end

-- Makes elements available again whose lease has expired.
local function expire_leases()
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100)) do expire(id) end
end

-- Whether another consumer of the group has this element.
local function is_of_others(text)
    if kind ~= 'stream' or not text then return false end
    local _, score = unpacked(text)
    local entry, group = place(score)
    return not owns(key, group, entry)
end

-- Shows other consumers of the group that the entry of this text is in use.
local function claim(text)
    local _, score = unpacked(text)
    local entry, group = place(score)
    -- Redis would forget the delivery of an entry that is in the stream no more.
    if #redis.call('XRANGE', key, entry, entry) == 0 then return end
    redis.call('XCLAIM', key, group, CONSUMER, 0, entry, 'JUSTID')
end

-- The lease of this element, if it has not expired.
local function is_leased(id)
    local ends = redis.call('ZSCORE', leases, id)
    if not ends then return false end
    if is_of_others(redis.call('HGET', taken, id)) then
        remove(id)
        return false
    end
    if tonumber(ends) > now then return true end
    expire(id)
    return false
end

-- The next element of a group.
local function next_of_group()
    while true do
        local from, to = again_range(ARGV[3])
        local member = redis.call('ZRANGEBYLEX', again, from, to, 'LIMIT', 0, 1)[1]
        if not member then break end
        local text = again_text(ARGV[3], member)
        if not is_of_others(text) then return again, unpacked(text) end
        redis.call('ZREM', again, member)
    end
    local found = redis.call('XREADGROUP', 'GROUP', ARGV[3], CONSUMER, 'COUNT', 1, 'STREAMS', key, '>')
    if not found then return key, 0, '', false end
    local entry = found[1][2][1]
    return key, 0, entry[1] .. '@' .. ARGV[3], bytes_of(entry[2])
end

-- The next element: the key in which it is, its number of earlier deliveries, its score and its bytes.
local function next_element()
    if kind == 'stream' then
        return next_of_group()
    elseif kind == 'list' then
        local text = redis.call('LINDEX', again, 0)
        if text then return again, unpacked(text) end
        return key, 0, '', redis.call('LINDEX', key, is_front and 0 or -1)
    elseif kind == 'set' then
        return key, 0, '', redis.call('SRANDMEMBER', key)
    end
    local found = redis.call(is_front and 'ZRANGE' or 'ZREVRANGE', key, 0, 0, 'WITHSCORES')
    return key, 0, found[2] or '', found[1] or false
end

-- Removes this element, which was written elsewhere before: a user without this right must not lose it. `undo` removes it
-- there if it cannot be removed here.
local function remove_from(from, bytes, undo, member)
    local done
    if kind == 'stream' then
        -- A new entry stays in the stream.
        if from == again then done = redis.pcall('ZREM', again, member) end
    elseif kind == 'list' then
        done = redis.pcall((from == again or is_front) and 'LPOP' or 'RPOP', from)
    else
        done = redis.pcall(kind == 'set' and 'SREM' or 'ZREM', key, bytes)
    end
    if type(done) == 'table' and done.err then
        undo()
        error(done)
    end
end

-- ARGV[4] the maximum number, ARGV[5] the lease in ms, ARGV[6..9] the id of the call, ARGV[10..] elements that are done.
-- Reply: for each element, its id, number of deliveries, score and bytes
if verb == 'take' then
    for at = 10, #ARGV do
        local text = kind == 'stream' and redis.call('HGET', taken, ARGV[at])
        if is_of_others(text) then remove(ARGV[at]) else finish(ARGV[at], text) end
    end
    local elements, names = {}, {}
    for _, name in ipairs(remembered(answers, 6) or {}) do
        local text = redis.call('HGET', taken, name)
        if text then
            local deliveries, score, bytes = unpacked(text)
            elements[#elements + 1] = {name, tostring(deliveries), score, bytes}
        end
    end
    if #elements > 0 then return elements end
    local ttl = math.max(ttl_for(taken, key), ttl_for(taken, again))
    if kind == 'stream' then
        if redis.call('EXISTS', key) == 0 then return {} end
        ready_group(key, taken, leases, again, ARGV[3])
        redis.call('HDEL', taken, '#' .. ARGV[3])
    end
    expire_leases()
    local id = tonumber(redis.call('GET', last) or '0')
    for _ = 1, tonumber(ARGV[4]) do
        local from, deliveries, score, bytes = next_element()
        if not bytes then break end
        id = math.max(id + 1, time)
        local name = string.format('%.0f', id)
        redis.call('ZADD', leases, now + ARGV[5], name) -- First: a lease without an element expires, the reverse stays.
        redis.call('HSET', taken, name, packed(deliveries + 1, score, bytes))
        local member = from == again and kind == 'stream' and again_member(score, packed(deliveries, score, bytes))
        remove_from(from, bytes, function() remove(name) end, member)
        if member then claim(packed(deliveries, score, bytes)) end
        elements[#elements + 1] = {name, tostring(deliveries + 1), score, bytes}
        names[#names + 1] = name
    end
    if kind == 'stream' then redis.call('HSET', taken, '#' .. ARGV[3], '') end
    set_ttl(taken, ttl)
    if #elements > 0 then
        set_ttl(leases, ttl)
        -- Ids are times. They rise for a day also if the clock of the server is set back.
        redis.call('SET', last, names[#names], 'PX', 86400000)
        remember(answers, 6, names)
    end
    return elements
end

-- ARGV[4] done, undelivered or again, ARGV[5..] the ids. Reply: 1 or 0 for each
if verb == 'settle' then
    local flags = {}
    for at = #ARGV, 5, -1 do -- The last one that was taken returns first, so that their order stays.
        local id, flag = ARGV[at], 0
        local text = is_leased(id) and redis.call('HGET', taken, id)
        if text then
            flag = 1
            if ARGV[4] == 'done' then
                finish(id, text)
            else
                local deliveries, score, bytes = unpacked(text)
                if ARGV[4] == 'undelivered' then deliveries = deliveries - 1 end
                local to = (kind == 'stream' or kind == 'list' and deliveries > 0) and again or key
                local ttl = ttl_for(to, taken)
                if to == again then
                    add_again(packed(deliveries, score, bytes), true)
                else
                    give_back(score, bytes)
                end
                set_ttl(to, ttl)
                remove(id)
            end
        end
        flags[at - 4] = flag
    end
    return flags
end

-- ARGV[4] the lease in ms, ARGV[5..] the ids. Reply: 1 or 0 for each
if verb == 'extend' then
    local flags = {}
    for at = 5, #ARGV do
        local leased = is_leased(ARGV[at])
        if leased then
            redis.call('ZADD', leases, 'GT', now + ARGV[4], ARGV[at])
            if kind == 'stream' then claim(redis.call('HGET', taken, ARGV[at])) end
        end
        flags[#flags + 1] = leased and 1 or 0
    end
    return flags
end

expire_leases()
-- Reply: the number of elements that can be taken, and of those that are taken
if verb == 'count' then
    if kind == 'stream' then
        local fields = info(key, ARGV[3])
        if not fields then return {redis.call('XLEN', key), 0} end
        return {counts(key, again, ARGV[3], fields)}
    end
    local commands = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD'}
    return {redis.call(commands[kind], key) + redis.call('LLEN', again), redis.call('HLEN', taken)}
end

-- ARGV[4] the maximum number. Reply: elements
if verb == 'peek' then
    local at_most, found = tonumber(ARGV[4]), {}
    if kind == 'list' then
        for _, text in ipairs(redis.call('LRANGE', again, 0, at_most - 1)) do
            local _, _, bytes = unpacked(text)
            found[#found + 1] = bytes
        end
    end
    local fields = kind == 'stream' and info(key, ARGV[3])
    if fields then
        forget_claimed(key, again, ARGV[3])
        local from, to = again_range(ARGV[3])
        for _, member in ipairs(redis.call('ZRANGEBYLEX', again, from, to, 'LIMIT', 0, at_most)) do
            local _, _, bytes = unpacked(again_text(ARGV[3], member))
            found[#found + 1] = bytes
        end
    end
    local rest, more = at_most - #found, {}
    if rest <= 0 then return found end
    if kind == 'stream' then
        for _, entry in ipairs(new_entries(key, fields or {['last-delivered-id'] = '0-0'}, rest)) do
            more[#more + 1] = bytes_of(entry[2])
        end
    elseif kind == 'list' then
        more = is_front and redis.call('LRANGE', key, 0, rest - 1) or redis.call('LRANGE', key, -rest, -1)
    elseif kind == 'zset' then
        more = redis.call(is_front and 'ZRANGE' or 'ZREVRANGE', key, 0, rest - 1)
    else
        more = redis.call('SRANDMEMBER', key, rest)
    end
    local is_reversed = kind == 'list' and not is_front
    for at = 1, #more do found[#found + 1] = more[is_reversed and #more + 1 - at or at] end
    return found
end

-- ARGV[4] the end of the other list, ARGV[5] the maximum number. Reply: the number of moved elements
must_be(KEYS[7], 'list')
local moved = 0
for _ = 1, tonumber(ARGV[5]) do
    local from, _, _, bytes = next_element()
    if not bytes then break end
    local to_front = ARGV[4] == 'front'
    redis.call(to_front and 'LPUSH' or 'RPUSH', KEYS[7], bytes)
    remove_from(from, bytes, function() redis.call(to_front and 'LPOP' or 'RPOP', KEYS[7]) end)
    moved = moved + 1
end
return moved
