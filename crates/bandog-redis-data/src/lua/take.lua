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
-- Maximum number of elements that are read at once.
local PART = 32
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
local function expire_leases(at_most)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, at_most)) do expire(id) end
    if redis.call('EXISTS', leases) == 1 then return end
    -- The server may have evicted the leases. Then no program has an element.
    for _, id in ipairs(redis.call('HKEYS', taken)) do
        if id:sub(1, 1) ~= '#' then expire(id) end
    end
end

-- Whether another consumer of the group has this element.
local function is_of_others(text)
    if not text then return false end
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
    if kind == 'stream' and is_of_others(redis.call('HGET', taken, id)) then
        remove(id)
        return false
    end
    if tonumber(ends) > now then return true end
    expire(id)
    return false
end

-- The next elements of `from`, which is `again` or `key`, at most this number: for each its number of earlier deliveries, its
-- score, its bytes, and its member of `from`. New entries of a journal are delivered by this; `fitting` says how many of them.
-- `skip` (peek) is the number of elements that are left out.
local function next_elements(from, at_most, fitting, skip)
    local found = {}
    skip = skip or 0
    local function add(deliveries, score, bytes, member) found[#found + 1] = {deliveries, score, bytes, member} end
    if at_most <= 0 then return found end
    if from == again then
        if kind == 'list' then
            for _, text in ipairs(redis.call('LRANGE', again, skip, skip + at_most - 1)) do add(unpacked(text)) end
        elseif kind == 'stream' then
            local first, last = again_range(ARGV[3])
            repeat
                local page = redis.call('ZRANGEBYLEX', again, first, last, 'LIMIT', skip + #found, at_most - #found)
                for _, member in ipairs(page) do
                    local text = again_text(ARGV[3], member)
                    if is_of_others(text) then
                        redis.call('ZREM', again, member)
                    else
                        local deliveries, score, bytes = unpacked(text)
                        add(deliveries, score, bytes, member)
                    end
                end
            until #page == 0 or #found == at_most
        end
    elseif kind == 'list' then
        local first, last = skip, skip + at_most - 1
        if not is_front then first, last = -1 - last, -1 - first end
        local all = redis.call('LRANGE', key, first, last)
        for at = 1, #all do
            local bytes = all[is_front and at or #all + 1 - at]
            add(0, '', bytes, bytes)
        end
    elseif kind == 'set' then
        for _, bytes in ipairs(skip == 0 and redis.call('SRANDMEMBER', key, at_most) or {}) do add(0, '', bytes, bytes) end
    elseif kind == 'zset' then
        local all = redis.call(is_front and 'ZRANGE' or 'ZREVRANGE', key, skip, skip + at_most - 1, 'WITHSCORES')
        for at = 1, #all, 2 do add(0, all[at + 1], all[at], all[at]) end
    else
        local entries = new_entries(key, info(key, ARGV[3]) or {['last-delivered-id'] = '0-0'}, skip + at_most)
        if verb ~= 'peek' and #entries > 0 then
            local lengths = {}
            for at, entry in ipairs(entries) do lengths[at] = #bytes_of(entry[2]) end
            local number, read = fitting(lengths), nil
            if number > 0 then
                read = redis.call('XREADGROUP', 'GROUP', ARGV[3], CONSUMER, 'COUNT', number, 'STREAMS', key, '>')
            end
            entries = read and read[1][2] or {}
        end
        for at = skip + 1, #entries do
            local entry = entries[at]
            add(0, entry[1] .. '@' .. ARGV[3], bytes_of(entry[2]))
        end
    end
    return found
end

-- Removes these elements, which were written elsewhere before: a user without this right must not lose them. `undo` removes
-- them there if they cannot be removed here.
local function remove_from(from, found, undo)
    if kind == 'stream' and from == key then return end -- A new entry stays in the stream.
    local done
    if kind == 'list' then
        done = redis.pcall((from == again or is_front) and 'LPOP' or 'RPOP', from, #found)
    else
        local members = {}
        for at, element in ipairs(found) do members[at] = element[4] end
        done = redis.pcall(kind == 'set' and 'SREM' or 'ZREM', from, unpack(members))
    end
    if type(done) == 'table' and done.err then
        undo()
        error(done)
    end
end

-- Ends an element: done, undelivered or again. Returns 1, or 0 if it is not taken any more.
local function settle(id, how)
    local text = is_leased(id) and redis.call('HGET', taken, id)
    if not text then return 0 end
    if how == 'done' then
        finish(id, text)
        return 1
    end
    local deliveries, score, bytes = unpacked(text)
    if how == 'undelivered' then deliveries = deliveries - 1 end
    local to = (kind == 'stream' or kind == 'list' and deliveries > 0) and again or key
    local ttl = ttl_for(to, taken)
    if to == again then
        add_again(packed(deliveries, score, bytes), true)
    else
        give_back(score, bytes)
    end
    set_ttl(to, ttl)
    remove(id)
    return 1
end

-- ARGV[4] the maximum number, ARGV[5] the maximum number of bytes beside the first element, ARGV[6] the lease in ms,
-- ARGV[7..10] the id of the call, ARGV[11..] elements that are done.
-- Reply: for each element, its id, number of deliveries, score and bytes; and an empty one if a further one was left because of
-- its bytes
if verb == 'take' then
    if kind == 'stream' then
        for at = 11, #ARGV do
            local text = redis.call('HGET', taken, ARGV[at])
            if is_of_others(text) then remove(ARGV[at]) else finish(ARGV[at], text) end
        end
    elseif #ARGV >= 11 then
        redis.call('ZREM', leases, unpack(ARGV, 11))
        redis.call('HDEL', taken, unpack(ARGV, 11))
    end
    local elements, names = {}, {}
    local left, bytes_left, is_cut = math.min(ARGV[4], 1000), tonumber(ARGV[5]), false
    -- The number of the next elements, whose lengths these are, that are part of the answer.
    local function fitting(lengths)
        local rest, number = bytes_left, 0
        for _, length in ipairs(lengths) do
            is_cut = number == left or #elements + number > 0 and length > rest
            if is_cut then break end
            rest, number = rest - length, number + 1
        end
        return number
    end
    local function add(name, deliveries, score, bytes)
        elements[#elements + 1], names[#names + 1] = {name, tostring(deliveries), score, bytes}, name
        left, bytes_left = left - 1, bytes_left - #bytes
    end
    -- A repeated call gets the elements of the first one. If it asks for less, the others go back: no program has received them.
    local before = remembered(answers, 7)
    if before then
        local others = {}
        for _, name in ipairs(before) do
            local text = redis.call('HGET', taken, name)
            if text then
                local deliveries, score, bytes = unpacked(text)
                if #others == 0 and fitting({#bytes}) == 1 then
                    add(name, deliveries, score, bytes)
                else
                    others[#others + 1] = name
                end
            end
        end
        for at = #others, 1, -1 do settle(others[at], 'undelivered') end
        if #others > 0 then remember(answers, 7, names) end
        return elements
    end
    if kind == 'stream' then
        if redis.call('EXISTS', key) == 0 then return {} end
        ready_group(key, taken, leases, again, ARGV[3])
        redis.call('HDEL', taken, '#' .. ARGV[3])
    end
    local had_taken, had_leases = redis.call('EXISTS', taken) == 1, redis.call('EXISTS', leases) == 1
    local ttl = math.max(redis.call('PTTL', key), redis.call('PTTL', again), redis.call('PTTL', taken))
    expire_leases(math.max(left, 100)) -- As many as are taken: they come before the others.
    local id = tonumber(redis.call('GET', last) or '0')
    local from, after_again = again, key
    while from and left > 0 and not is_cut do
        -- Not all at once: they may be long.
        local found = next_elements(from, math.min(left, PART), fitting)
        if kind ~= 'stream' or from == again then
            local lengths = {}
            for at, element in ipairs(found) do lengths[at] = #element[3] end
            for at = #found, fitting(lengths) + 1, -1 do found[at] = nil end
        end
        if #found == 0 then
            from, after_again = after_again, nil
        else
            local ids, ends, texts = {}, {}, {}
            for at, element in ipairs(found) do
                local deliveries, score, bytes = element[1] + 1, element[2], element[3]
                id = math.max(id + 1, time)
                local name = string.format('%.0f', id)
                ids[at], ends[2 * at - 1], ends[2 * at] = name, now + ARGV[6], name
                texts[2 * at - 1], texts[2 * at] = name, packed(deliveries, score, bytes)
                add(name, deliveries, score, bytes)
            end
            redis.call('ZADD', leases, unpack(ends)) -- First: a lease without an element expires, the reverse stays.
            redis.call('HSET', taken, unpack(texts))
            remove_from(from, found, function()
                redis.call('ZREM', leases, unpack(ids))
                redis.call('HDEL', taken, unpack(ids))
            end)
            if kind == 'stream' and from == again then
                for at = 2, #texts, 2 do claim(texts[at]) end
            end
        end
    end
    if kind == 'stream' then redis.call('HSET', taken, '#' .. ARGV[3], '') end
    if not had_taken then set_ttl(taken, ttl) end
    if not had_leases then set_ttl(leases, ttl) end
    if #elements > 0 then
        -- Ids are times. They rise for a day also if the clock of the server is set back.
        redis.call('SET', last, names[#names], 'PX', 86400000)
        remember(answers, 7, names)
    end
    if is_cut and left > 0 then elements[#elements + 1] = {} end
    return elements
end

-- ARGV[4] done, undelivered or again, ARGV[5..] the ids. Reply: 1 or 0 for each
if verb == 'settle' then
    local flags = {}
    -- The last one that was taken returns first, so that their order stays.
    for at = #ARGV, 5, -1 do flags[at - 4] = settle(ARGV[at], ARGV[4]) end
    return flags
end

-- ARGV[4] the lease in ms, ARGV[5..] the ids. Reply: 1 or 0 for each
if verb == 'extend' then
    local flags = {}
    for at = 5, #ARGV do
        local leased = is_leased(ARGV[at]) and redis.call('HEXISTS', taken, ARGV[at]) == 1
        if leased then
            redis.call('ZADD', leases, 'GT', now + ARGV[4], ARGV[at])
            if kind == 'stream' then claim(redis.call('HGET', taken, ARGV[at])) end
        end
        flags[#flags + 1] = leased and 1 or 0
    end
    return flags
end

expire_leases(100)
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

-- ARGV[4] the number of elements that are left out, ARGV[5] the maximum number, ARGV[6] the maximum number of bytes beside the
-- first element. Reply: elements
if verb == 'peek' then
    local returned = kind == 'list' and redis.call('LLEN', again)
        or kind == 'stream' and redis.call('ZLEXCOUNT', again, again_range(ARGV[3])) or 0
    local at_most, bytes = tonumber(ARGV[5]), tonumber(ARGV[6])
    -- A random choice is made once.
    local chosen = kind == 'set' and next_elements(key, at_most, nil, tonumber(ARGV[4]))
    local function read(from, number)
        local first, elements = tonumber(from), {}
        if chosen then
            for at = first + 1, math.min(first + number, #chosen) do elements[#elements + 1] = chosen[at][3] end
            return first + number < #chosen and string.format('%.0f', first + number) or '0', elements
        end
        local of_again = math.min(math.max(returned - first, 0), number)
        for _, element in ipairs(next_elements(again, of_again, nil, first)) do elements[#elements + 1] = element[3] end
        local rest = next_elements(key, number - of_again, nil, math.max(first - returned, 0))
        for _, element in ipairs(rest) do elements[#elements + 1] = element[3] end
        return #elements == number and string.format('%.0f', first + number) or '0', elements
    end
    local _, elements = read_page(ARGV[4], at_most, bytes, read)
    return elements
end

-- ARGV[4] the end of the other list, ARGV[5] the maximum number. Reply: the number of moved elements
must_be(KEYS[7], 'list')
local push, pop = 'RPUSH', 'RPOP'
if ARGV[4] == 'front' then push, pop = 'LPUSH', 'LPOP' end
-- No element is moved twice if both lists are the same.
local at_most, moved = math.min(ARGV[5], redis.call('LLEN', again) + redis.call('LLEN', key)), 0
while moved < at_most do
    for _, from in ipairs({again, key}) do
        local found = next_elements(from, math.min(at_most - moved, PART))
        if #found > 0 then
            local all = {}
            for at, element in ipairs(found) do all[at] = element[3] end
            redis.call(push, KEYS[7], unpack(all))
            remove_from(from, found, function() redis.call(pop, KEYS[7], #found) end)
            moved = moved + #found
        end
    end
end
return moved
