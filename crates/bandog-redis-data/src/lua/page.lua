-- A page of an object. It changes nothing.
--
-- KEYS[1] the object
-- ARGV[1] what it has: entries or fields (of a hash), members (of a set), elements (of a list), scored (of a sorted set)
-- ARGV[2] where the page begins: '0', or where the page before it ended
-- ARGV[3] about this number of items, ARGV[4] the maximum number of their bytes beside the first one
-- Reply: where the next page begins, or '0', and the items: of a hash also values, of a sorted set also scores
local key, part = KEYS[1], ARGV[1]
local kinds = {entries = 'hash', fields = 'hash', members = 'set', elements = 'list', scored = 'zset'}
must_be(key, kinds[part])
local is_scan = part == 'entries' or part == 'fields' or part == 'members'
local length = not is_scan and redis.call(part == 'scored' and 'ZCARD' or 'LLEN', key)

local function read(from, number)
    if is_scan then
        local next, found = unpack(redis.call(part == 'members' and 'SSCAN' or 'HSCAN', key, from, 'COUNT', number))
        if part ~= 'fields' then return next, found end
        local fields = {}
        for at = 1, #found, 2 do fields[#fields + 1] = found[at] end
        return next, fields
    end
    local first = tonumber(from)
    local last = first + number - 1
    local found = part == 'scored' and redis.call('ZRANGE', key, first, last, 'WITHSCORES')
        or redis.call('LRANGE', key, first, last)
    return last + 1 < length and string.format('%.0f', last + 1) or '0', found
end
return {read_page(ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), read)}
