-- Shows a work queue and its elements.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2] the verb

-- ARGV[3] the maximum number of bytes of each payload in the reply
local most, PORTION, MAX_READ = tonumber(ARGV[3]), 1048576, 8388608
-- The bytes that are left for payloads, those that may be read, and those that are left for results.
local payloads_left, reads_left, results_left = PORTION, MAX_READ, PORTION

-- The beginning of a payload, and its length. nil: there is no room for it.
local function beginning(id, is_first)
    if most == 0 then return '', 0 end
    if not is_first and (payloads_left < 0 or reads_left < 0) then return nil, 0 end
    local payload = redis.call('HGET', bodies, id) or ''
    local length = #payload
    reads_left, payloads_left = reads_left - length, payloads_left - math.min(length, most)
    if not is_first and payloads_left < 0 then return nil, length end
    return length > most and payload:sub(1, most) or payload, length
end

-- A result: its time, its kind and its text. Only a time, if there is no room for it. false: there is none.
local function result_of(id, is_first)
    local field = 'r' .. id
    if results_left < 0 then return redis.call('HEXISTS', kept, field) == 1 and digits(LATEST) end
    local result = redis.call('HGET', kept, field)
    if not result then return false end
    results_left = results_left - (#result - 17)
    return (is_first or results_left >= 0) and result or result:sub(1, 16)
end

-- For each id its state, the beginning of its payload, the length, the error and the progress, or false, '', 0, false, false;
-- and its result or false. `stops`: at the first payload for which there is no room, which is empty otherwise; then the last part of
-- the reply is 1 if further elements may follow, or 0.
local function rows_of(ids, stops)
    local reply, fields, has_payload, has_result = {now}, {}, false, false
    for at, id in ipairs(ids) do fields[2 * at - 1], fields[2 * at] = id .. ' e', id .. ' p' end
    local found, texts_of = fetch(elements, ids), fetch(bodies, fields)
    for at, id in ipairs(ids) do
        local state, from, payload, length, result = found[at], #reply, '', 0, false
        if state then
            payload, length = beginning(id, not has_payload)
            if not payload and stops then
                reply[#reply + 1] = 1
                return reply
            end
            payload, has_payload = payload or '', true
        else
            result = result_of(id, not has_result)
            has_result = has_result or result ~= false
        end
        reply[from + 1], reply[from + 2], reply[from + 3], reply[from + 4] = id, state, payload, length
        reply[from + 5], reply[from + 6], reply[from + 7] = texts_of[2 * at - 1], texts_of[2 * at], result
    end
    if stops then reply[#reply + 1] = #ids == tonumber(ARGV[5]) and 1 or 0 end
    return reply
end

-- ARGV[4..] the ids. Reply: the time, and for each id the id and what `rows_of` returns
if ARGV[2] == 'find' then
    local ids = {}
    for at = 4, #ARGV do ids[#ids + 1] = ARGV[at] end
    return rows_of(ids, false)
end

-- ARGV[4] the phase, ARGV[5] the maximum number, ARGV[6] the position of the last element of the page before: the member of
-- `ready`, or the score and the id; '' for the first page. Reply: as of find
if ARGV[2] == 'page' then
    local phase, last, set = ARGV[4], ARGV[6], sets[ARGV[4]]
    if phase == 'r' then
        local from = last == '' and '-' or '(' .. last
        local ids = redis.call('ZRANGEBYLEX', ready, from, '+', 'LIMIT', 0, ARGV[5])
        for at, member in ipairs(ids) do ids[at] = member:sub(-33) end
        return rows_of(ids, true)
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
    return rows_of(redis.call('ZRANGE', set, low, low + ARGV[5] - 1), true)
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
