-- Objects as a whole.
--
-- KEYS    the keys of the object: first those that show that it exists, then the others that have its ttl, then those that have
--         a ttl of their own
-- ARGV[1] exists, delete, expire, persist or ttl
-- ARGV[2] the number of keys that show that it exists
-- ARGV[3] the number of keys that have its ttl
-- ARGV[4] of a multimap, what precedes the name of values in their keys; otherwise ''
-- ARGV[5] (expire) the time in ms
-- Reply: 1 or 0; for ttl, the time in ms, -1 (none) or -2 (absent)
local verb, exists = ARGV[1], false
for at = 1, tonumber(ARGV[2]) do
    exists = exists or redis.call('EXISTS', KEYS[at]) == 1
end
if verb == 'exists' then return exists and 1 or 0 end
if verb == 'ttl' then
    if not exists then return -2 end
    local ttl = -1
    for at = 1, tonumber(ARGV[2]) do ttl = math.max(ttl, redis.call('PTTL', KEYS[at])) end
    return ttl
end

local is_multimap = ARGV[4] ~= '' and redis.call('TYPE', KEYS[1]).ok == 'hash'
local names = is_multimap and redis.call('HVALS', KEYS[1]) or {}
if verb == 'delete' then
    for _, name in ipairs(names) do redis.call('UNLINK', ARGV[4] .. name) end
    for _, key in ipairs(KEYS) do redis.call('UNLINK', key) end
    return exists and 1 or 0
end
if not exists then return 0 end

local changed = 0
local function apply(key)
    if verb == 'persist' then
        changed = changed + redis.call('PERSIST', key)
    else
        changed = changed + redis.call('PEXPIRE', key, ARGV[5])
    end
end
for at = 1, tonumber(ARGV[3]) do apply(KEYS[at]) end
for _, name in ipairs(names) do apply(ARGV[4] .. name) end
if verb == 'expire' then
    for at = ARGV[3] + 1, #KEYS do
        if redis.call('PTTL', KEYS[at]) > tonumber(ARGV[5]) then apply(KEYS[at]) end
    end
end
return changed > 0 and 1 or 0
