-- An object as its helper keys show it: a Bloom filter without items, and elements that are taken or were delivered before.
-- It changes nothing.
--
-- KEYS[1] the name
-- ARGV[1] the sizes of a Bloom filter, ARGV[2] taken elements, ARGV[3] elements that were delivered before, ARGV[4] the ends
--         of the leases, as in take.lua; ARGV[5] another name that would have these sizes
-- Reply: the type of the key with the name
--        whether there are sizes of a filter of this name, and their ttl in ms (-1: none)
--        what its elements are: list, sorted or '' (there are none), whether some are taken, and their ttl in ms
--        the number of elements that can be taken, but are not in the key with the name
--        the number of elements that are taken, and the ms until the first of their leases expires (-1: none is taken)
local sizes, taken, again, leases, other = unpack(ARGV)
local function is(key, kind) return redis.call('TYPE', key).ok == kind end

local kind = redis.call('TYPE', KEYS[1]).ok
local is_filter = is(sizes, 'hash') and redis.call('HEXISTS', sizes, 'hashIterations') == 1
if other ~= KEYS[1] and redis.call('EXISTS', other) == 1 then is_filter = false end

local now = math.floor(micros() / 1000)
-- The helper keys of a journal belong to the key with its name.
local structure, has_taken, ttl, ready, held, left = '', kind ~= 'stream' and is(taken, 'hash'), -1, 0, 0, -1
if is(again, 'list') then structure, ttl, ready = 'list', redis.call('PTTL', again), redis.call('LLEN', again) end
if has_taken then
    -- The text of an element of a sorted set has a score.
    local text = redis.call('HRANDFIELD', taken, 1, 'WITHVALUES')[2]
    structure, ttl, held = text:match('^%d+ %S') and 'sorted' or 'list', redis.call('PTTL', taken), redis.call('HLEN', taken)
end
if has_taken and is(leases, 'zset') then
    local ended = redis.call('ZCOUNT', leases, '-inf', now)
    ready, held = ready + ended, held - ended
    local first = redis.call('ZRANGEBYSCORE', leases, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if first[2] then left = tonumber(first[2]) - now end
end
return {kind, is_filter and 1 or 0, redis.call('PTTL', sizes), structure, has_taken and 1 or 0, ttl, ready, held, left}
