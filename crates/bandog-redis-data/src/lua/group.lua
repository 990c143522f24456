-- Groups of a journal, for the scripts `take` and `journal`.
--
-- A journal is a stream. The consumer of the entries that bandog takes is `bandog`. In `taken`, the score of an element is the
-- id of its entry, '@' and its group. The key of the elements that were delivered before is a sorted set whose members begin with
-- the group and the id of the entry with leading zeros. The field '#group' in `taken` shows that `taken` has all entries that the
-- server has delivered: without it, `taken` was evicted, or a script was stopped by a missing right.
local CONSUMER = 'bandog'
local PAGE, MAX_COUNT = 100, 10000

local function packed(deliveries, score, bytes)
    return deliveries .. ' ' .. score .. ' ' .. bytes
end
local function unpacked(text)
    local deliveries, score, from = text:match('^(%d+) (%S*) ()')
    return tonumber(deliveries), score, text:sub(from)
end

-- The entry and the group of a score.
local function place(score)
    return score:match('^(%d+%-%d+)@(.*)$')
end

-- The member of the sorted set for an element.
local function again_member(score, text)
    local millis, number, group = score:match('^(%d+)%-(%d+)@(.*)$')
    local zeros = function(digits) return ('0'):rep(20 - #digits) .. digits end
    return group .. '\0' .. zeros(millis) .. zeros(number) .. text
end
-- The text in `taken` of a member.
local function again_text(group, member)
    return member:sub(#group + 42)
end
local function again_range(group)
    return '[' .. group .. '\0', '(' .. group .. '\1'
end

-- What XINFO says about a group, as a table; or nil.
local function info(key, name)
    local groups = redis.call('EXISTS', key) == 1 and redis.call('XINFO', 'GROUPS', key) or {}
    for _, group in ipairs(groups) do
        local fields = {}
        for at = 1, #group, 2 do fields[group[at]] = group[at + 1] end
        if fields.name == name then return fields end
    end
    return nil
end

-- The bytes of an entry: the value of its field `m`, or of its first field.
local function bytes_of(fields)
    for at = 1, #fields, 2 do
        if fields[at] == 'm' then return fields[at + 1] end
    end
    return fields[2]
end

-- The entries that were never delivered to the group, at most this number.
local function new_entries(key, fields, at_most)
    return redis.call('XRANGE', key, '(' .. fields['last-delivered-id'], '+', 'COUNT', at_most)
end

-- Whether this entry was not taken or acknowledged by other consumers of the group. An entry that is in the stream no more
-- stays that of bandog.
local function owns(key, group, entry)
    local row = redis.pcall('XPENDING', key, group, entry, entry, 1)
    if row.err then
        if row.err:find('NOGROUP', 1, true) then return false end
        error(row)
    end
    if row[1] then return row[1][2] == CONSUMER end
    return #redis.call('XRANGE', key, entry, entry) == 0
end

-- Removes entries that other consumers have claimed from those that come again. Afterwards the first PAGE ones are those of
-- bandog.
local function forget_claimed(key, again, name)
    local from, to = again_range(name)
    local is_changed
    repeat
        is_changed = false
        for _, member in ipairs(redis.call('ZRANGEBYLEX', again, from, to, 'LIMIT', 0, PAGE)) do
            local _, score = unpacked(again_text(name, member))
            local entry = place(score)
            if not owns(key, name, entry) then
                redis.call('ZREM', again, member)
                is_changed = true
            end
        end
    until not is_changed
end

-- The number of entries that were never delivered to the group. A small number is exact. A large one is that of the server,
-- which may contain entries that were trimmed; if the server does not know it, at most MAX_COUNT are counted.
local function new_len(key, fields)
    local from, number, page, lag = fields['last-delivered-id'], 0, nil, tonumber(fields.lag or nil)
    repeat
        page = redis.call('XRANGE', key, '(' .. from, '+', 'COUNT', PAGE)
        number = number + #page
        if #page == PAGE and lag then return math.min(lag, redis.call('XLEN', key)) end
        if #page > 0 then from = page[#page][1] end
    until #page < PAGE or number >= MAX_COUNT
    return number
end

-- The numbers of entries that can be taken, and of those that are taken.
local function counts(key, again, name, fields)
    forget_claimed(key, again, name)
    local returned = redis.call('ZLEXCOUNT', again, again_range(name))
    local ready = new_len(key, fields)
    local pending = 0
    for _, consumer in ipairs(redis.call('XPENDING', key, name)[4] or {}) do
        if consumer[1] == CONSUMER then pending = tonumber(consumer[2]) end
    end
    return ready + returned, math.max(pending - returned, 0)
end

-- The elements of the group in `taken`: id -> entry.
local function entries_of(taken, name)
    local found, fields = {}, redis.call('HGETALL', taken)
    for at = 1, #fields, 2 do
        if fields[at]:sub(1, 1) ~= '#' then
            local _, score = unpacked(fields[at + 1])
            local entry, group = place(score)
            if group == name then found[fields[at]] = entry end
        end
    end
    return found
end

-- Creates the group if it is missing, and finds entries that the server has delivered to bandog and that `taken` does not have,
-- or that have no lease.
local function ready_group(key, taken, leases, again, name)
    if not info(key, name) then
        redis.call('XGROUP', 'CREATE', key, name, '0')
    elseif redis.call('HEXISTS', taken, '#' .. name) == 1 then
        return
    end
    local known = {}
    for id, entry in pairs(entries_of(taken, name)) do
        known[entry] = true
        if not redis.call('ZSCORE', leases, id) then redis.call('ZADD', leases, 0, id) end
    end
    for _, member in ipairs(redis.call('ZRANGEBYLEX', again, again_range(name))) do
        local _, score = unpacked(again_text(name, member))
        known[place(score)] = true
    end
    local from, rows = '-', nil
    repeat
        rows = redis.call('XPENDING', key, name, from, '+', 1000, CONSUMER)
        for _, row in ipairs(rows) do
            local entry, found = row[1], redis.call('XRANGE', key, row[1], row[1])[1]
            if not found then
                redis.call('XACK', key, name, entry)
            elseif not known[entry] then
                local score = entry .. '@' .. name
                redis.call('ZADD', again, 0, again_member(score, packed(row[4], score, bytes_of(found[2]))))
            end
            from = '(' .. entry
        end
    until #rows < 1000
    redis.call('HSET', taken, '#' .. name, '')
end
