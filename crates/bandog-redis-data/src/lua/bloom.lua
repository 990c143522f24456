-- Bloom filters, as RBloomFilter has them.
--
-- KEYS[1] the bits, KEYS[2] the sizes: a hash
-- ARGV[1] create    ARGV[2..5] size, hashIterations, expectedInsertions, falseProbability
--         open
--         insert, contains  ARGV[2] size, ARGV[3] hashIterations, ARGV[4..] the bits of the items, hashIterations each
-- Reply: {1, a number for each item}, or {0, the sizes, if the filter exists}.
local bits, config, verb = KEYS[1], KEYS[2], ARGV[1]
must_be(bits, 'string')
must_be(config, 'hash')

local function sizes()
    local found = redis.call('HMGET', config, 'size', 'hashIterations', 'expectedInsertions', 'falseProbability')
    return found[1] and {0, found} or {0}
end

if verb == 'create' and redis.call('EXISTS', config) == 0 then
    redis.call('DEL', bits)
    redis.call('HSET', config, 'size', ARGV[2], 'hashIterations', ARGV[3], 'expectedInsertions', ARGV[4],
        'falseProbability', ARGV[5])
end
if verb == 'create' or verb == 'open' then return sizes() end

local found = redis.call('HMGET', config, 'size', 'hashIterations')
if found[1] ~= ARGV[2] or found[2] ~= ARGV[3] then return sizes() end
local hashes, answers = tonumber(ARGV[3]), {}
local is_new_filter = verb == 'insert' and redis.call('EXISTS', bits) == 0
for first = 4, #ARGV, hashes do
    local has_all = 1
    for at = first, first + hashes - 1 do
        local before
        if verb == 'insert' then
            before = redis.call('SETBIT', bits, ARGV[at], 1)
        else
            before = redis.call('GETBIT', bits, ARGV[at])
        end
        if before == 0 then has_all = 0 end
    end
    answers[#answers + 1] = verb == 'insert' and 1 - has_all or has_all
end
-- The first item makes the bits. They get the ttl of the filter.
if is_new_filter then set_ttl(bits, redis.call('PTTL', config)) end
return {1, answers}
