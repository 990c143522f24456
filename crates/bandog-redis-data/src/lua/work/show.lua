-- Shows a work queue and its elements.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2] the verb

-- For each id its state, payload, error and progress, or false, false, false, and its result or false.
local function rows_of(ids)
    local reply, fields = {now}, {}
    for at, id in ipairs(ids) do
        fields[3 * at - 2], fields[3 * at - 1], fields[3 * at] = id, id .. ' e', id .. ' p'
    end
    local found, texts_of = fetch(elements, ids), fetch(bodies, fields)
    for at, id in ipairs(ids) do
        local state, from = found[at], #reply
        reply[from + 1], reply[from + 2], reply[from + 3] = id, state, state and texts_of[3 * at - 2] or false
        reply[from + 4], reply[from + 5] = texts_of[3 * at - 1], texts_of[3 * at]
        reply[from + 6] = not state and redis.call('HGET', kept, 'r' .. id) or false
    end
    return reply
end

-- ARGV[3..] the ids. Reply: the time, and for each id the id and what `rows_of` returns
if ARGV[2] == 'find' then
    local ids = {}
    for at = 3, #ARGV do ids[#ids + 1] = ARGV[at] end
    return rows_of(ids)
end

-- ARGV[3] the phase, ARGV[4] the maximum number, ARGV[5] the position of the last element of the page before: the member of
-- `ready`, or the score and the id; '' for the first page. Reply: as of find
if ARGV[2] == 'page' then
    local phase, last, set = ARGV[3], ARGV[5], sets[ARGV[3]]
    if phase == 'r' then
        local from = last == '' and '-' or '(' .. last
        local ids = redis.call('ZRANGEBYLEX', ready, from, '+', 'LIMIT', 0, ARGV[4])
        for at, member in ipairs(ids) do ids[at] = member:sub(-33) end
        return rows_of(ids)
    end
    local low = 0
    if last ~= '' then
        -- The rank of the first member after the position, by halves among those with the same score.
        local score, id = last:sub(1, 16), last:sub(17)
        low = redis.call('ZCOUNT', set, '-inf', '(' .. score)
        local high = redis.call('ZCOUNT', set, '-inf', score)
        while low < high do
            local middle = math.floor((low + high) / 2)
            local member = redis.call('ZRANGE', set, middle, middle)[1]
            if member and member > id then high = middle else low = middle + 1 end
        end
    end
    return rows_of(redis.call('ZRANGE', set, low, low + ARGV[4] - 1))
end

-- Reply: the time, the settings, the numbers of elements in the order ready, delayed, blocked, taken, dead, the time since
-- which the first ready element is ready or false, and the rows of the workers
local counts = {}
for at, set in ipairs({ready, delayed, blocked, taken, dead}) do counts[at] = redis.call('ZCARD', set) end
local first = redis.call('ZRANGE', ready, 0, 0)[1]
local ids = redis.call('ZRANGEBYSCORE', workers, '(' .. digits(now), '+inf', 'LIMIT', 0, 10000)
for at, id in ipairs(ids) do ids[at] = 'w' .. id end
local limits = redis.call('HMGET', settings, 'paused', 'concurrency', 'deliveries', 'per')
return {now, limits, counts, first and first:sub(2, 17) or false, fetch(kept, ids)}
