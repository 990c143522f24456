-- Writes to a list by index, and pushes with an id.
--
-- KEYS[1] the list, KEYS[2] (push) the answers that are remembered
-- ARGV[1] insert  ARGV[2] the index, ARGV[3] the element         Reply: 1, or 0 if the index does not exist
--         set     ARGV[2] the index, ARGV[3] the element         Reply: the former element
--         remove  ARGV[2] the index                              Reply: the element
--         push    ARGV[2] RPUSH or LPUSH, ARGV[3..6] the id, ARGV[7..] the elements; Reply: the length
local key, verb = KEYS[1], ARGV[1]

if verb == 'push' then
    must_be(key, 'list')
    local answer = remembered(KEYS[2], 3)
    if answer then return answer end
    local length
    for first = 7, #ARGV, 4000 do
        length = redis.call(ARGV[2], key, unpack(ARGV, first, math.min(first + 3999, #ARGV)))
    end
    remember(KEYS[2], 3, length)
    return length
end

local index, length = tonumber(ARGV[2]), redis.call('LLEN', key)
if verb == 'insert' then
    if index > length then return 0 end
    if index == length then
        redis.call('RPUSH', key, ARGV[3])
    elseif index == 0 then
        redis.call('LPUSH', key, ARGV[3])
    else
        local tail = redis.call('LRANGE', key, index, -1)
        redis.call('LTRIM', key, 0, index - 1)
        redis.call('RPUSH', key, ARGV[3])
        for first = 1, #tail, 4000 do
            redis.call('RPUSH', key, unpack(tail, first, math.min(first + 3999, #tail)))
        end
    end
    return 1
end

local element = redis.call('LINDEX', key, index)
if not element then return false end
if verb == 'set' then
    redis.call('LSET', key, index, ARGV[3])
elseif index == 0 or index == -length then
    redis.call('LPOP', key)
elseif index == -1 or index == length - 1 then
    redis.call('RPOP', key)
else
    -- No other client sees this mark, and no element is equal to it.
    local mark = 'bandog:removed'
    while redis.call('LPOS', key, mark) do mark = mark .. ':' .. mark end
    redis.call('LSET', key, index, mark)
    redis.call('LREM', key, index < 0 and -1 or 1, mark)
end
return element
