-- Writes to bit sets that no single command makes, and their length.
--
-- KEYS[1] the bit set, KEYS[2..] (combine) the others
-- ARGV[1] range    ARGV[2] the first bit, ARGV[3] the end (excluded), ARGV[4] the bit
--         len      Reply: the index after the last bit that is 1
--         combine  ARGV[2] AND, OR, XOR or NOT
local key, verb = KEYS[1], ARGV[1]
must_be(key, 'string')

if verb == 'range' then
    local from, to, bit = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
    while from < to and from % 8 ~= 0 do
        redis.call('SETBIT', key, from, bit)
        from = from + 1
    end
    local bytes, at = math.floor((to - from) / 8), from / 8
    while bytes > 0 do
        local some = math.min(bytes, 65536)
        redis.call('SETRANGE', key, at, string.rep(bit == '1' and '\255' or '\0', some))
        bytes, at, from = bytes - some, at + some, from + some * 8
    end
    while from < to do
        redis.call('SETBIT', key, from, bit)
        from = from + 1
    end
    return 1
end

if verb == 'len' then
    local last = redis.call('STRLEN', key) - 1
    while last >= 0 do
        local first = math.max(last - 4095, 0)
        local bytes = redis.call('GETRANGE', key, first, last)
        for at = #bytes, 1, -1 do
            local byte = bytes:byte(at)
            if byte ~= 0 then
                local bit = 8
                while byte % 2 == 0 do
                    byte, bit = byte / 2, bit - 1
                end
                return (first + at - 1) * 8 + bit
            end
        end
        last = first - 1
    end
    return 0
end

local ttl = redis.call('PTTL', key)
if ARGV[2] == 'NOT' then
    redis.call('BITOP', 'NOT', key, key)
else
    redis.call('BITOP', ARGV[2], key, unpack(KEYS))
end
set_ttl(key, ttl)
return 1
