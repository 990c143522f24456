-- Journals.
--
-- KEYS[1] the journal, KEYS[2] to KEYS[6] as those of the script `take`
-- ARGV[1] the verb
local key, taken, leases, again, _, answers = unpack(KEYS)
local verb = ARGV[1]
must_be(key, 'stream')

-- The arguments that keep entries: ARGV[2] is all, newest or for, ARGV[3] the number, or the age in ms.
local function keep(sign)
    if ARGV[2] == 'newest' then return {'MAXLEN', sign, ARGV[3]} end
    return {'MINID', sign, string.format('%.0f', math.max(math.floor(micros() / 1000) - ARGV[3], 0))}
end

-- ARGV[4..7] the id of the call, ARGV[8..] the entries. Reply: their ids
if verb == 'append' then
    local ids = remembered(answers, 4)
    if ids then return ids end
    ids = {}
    for at = 8, #ARGV do
        local trim = (at == #ARGV and ARGV[2] ~= 'all') and keep('~') or {}
        local args = {unpack(trim)}
        args[#args + 1], args[#args + 2], args[#args + 3] = '*', 'm', ARGV[at]
        ids[#ids + 1] = redis.call('XADD', key, unpack(args))
    end
    remember(answers, 4, ids)
    return ids
end

-- ARGV[2] the first id, ARGV[3] the last one, ARGV[4] the maximum number of entries, ARGV[5] of their bytes beside the first one.
-- Reply: for each entry, its id and a field with its bytes
if verb == 'range' then
    local function read(from, number)
        local entries, found = redis.call('XRANGE', key, from, ARGV[3], 'COUNT', number), {}
        for _, entry in ipairs(entries) do found[#found + 1], found[#found + 2] = entry[1], bytes_of(entry[2]) end
        return #entries == number and '(' .. entries[number][1] or '0', found
    end
    local _, items = read_page(ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), read)
    local entries = {}
    for at = 1, #items, 2 do entries[#entries + 1] = {items[at], {'m', items[at + 1]}} end
    return entries
end

-- Reply: the number of removed entries
if verb == 'trim' then
    if ARGV[2] == 'all' then return 0 end
    return redis.call('XTRIM', key, unpack(keep('=')))
end

-- ARGV[2] the group, ARGV[3] the id after which it begins. Reply: 1 if it is new
if verb == 'open' then
    if info(key, ARGV[2]) then return 0 end
    redis.call('XGROUP', 'CREATE', key, ARGV[2], ARGV[3], 'MKSTREAM')
    return 1
end

-- ARGV[2] the group. Reply: 1 if it existed
if verb == 'remove' then
    for id in pairs(entries_of(taken, ARGV[2])) do
        redis.call('ZREM', leases, id)
        redis.call('HDEL', taken, id)
    end
    redis.call('HDEL', taken, '#' .. ARGV[2])
    redis.call('ZREMRANGEBYLEX', again, again_range(ARGV[2]))
    return redis.call('EXISTS', key) == 1 and redis.call('XGROUP', 'DESTROY', key, ARGV[2]) or 0
end

-- Reply: for each group, its name, and the numbers of entries that can be taken and that are taken
local found = {}
for _, group in ipairs(redis.call('EXISTS', key) == 1 and redis.call('XINFO', 'GROUPS', key) or {}) do
    local fields = {}
    for at = 1, #group, 2 do fields[group[at]] = group[at + 1] end
    local ready, in_use = counts(key, again, fields.name, fields)
    found[#found + 1] = {fields.name, ready, in_use}
end
return found
