-- Takes elements of a work queue, each with a lease.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2] the taker, ARGV[3] the take: 8 bytes of the taker and 8 of the number, ARGV[4] 1 if it is repeated
-- ARGV[5] the maximum number, ARGV[6] the lease, ARGV[7] the number of deliveries after which an element becomes dead
-- ARGV[8] the maximum number of bytes of payloads, beside the first element, ARGV[9] the delay of elements that are given back
-- Reply: whether more elements are ready, the time until one may become ready or -1, the number of elements that became
-- dead, the time; a list each of the ids, states and payloads of the elements; and for those that have an error their positions
-- and the errors
local SIDE_WORK = 100
local taker, take, at_most = ARGV[2], ARGV[3], math.min(ARGV[5], 1000)
-- A server whose memory is full refuses a script that begins with a write that needs memory. But takes lead to less of it.
redis.call('ZREM', idle, taker)
-- The last four takes of a taker are remembered.
local remembered_as = 't' .. take:sub(1, 8) .. take:byte(16) % 4

local ids, states_of, payloads, errors = {}, {}, {}, {}
-- Maximum number of payloads that are read at once.
local PART = 32

-- The reply with the elements in `ids`.
local function reply(has_more, next_in, died)
    return {has_more, next_in, died, now, ids, states_of, payloads, errors}
end

-- Adds an element to the reply.
local function deliver(id, state, flags, payload)
    local at = #ids + 1
    ids[at], states_of[at], payloads[at] = id, state, payload
    if has(flags, HAS_ERROR) then
        errors[#errors + 1], errors[#errors + 2] = at, redis.call('HGET', bodies, id .. ' e') or ''
    end
end

-- Whether the next element, with this payload, is part of the answer. After the first one that is not, no other is.
local bytes_left, is_cut = tonumber(ARGV[8]), false
local function takes(payload)
    local length = payload and #payload or 0
    is_cut = is_cut or #ids >= at_most or #ids > 0 and length > bytes_left
    bytes_left = bytes_left - length
    return not is_cut
end

if ARGV[4] == '1' then
    local text = redis.call('HGET', kept, remembered_as)
    local earlier, has_some = {}, false
    if text and text:sub(1, 16) == take then
        for from = 17, #text, 33 do earlier[#earlier + 1] = text:sub(from, from + 32) end
    end
    load(earlier)
    for _, id in ipairs(earlier) do
        local element = find(id)
        if element and element.phase == 't' and element.by == take then
            has_some = true
            local payload = not is_cut and redis.call('HGET', bodies, id)
            if takes(payload) then
                deliver(id, state_of(element), element.flags, payload)
            else
                hand_back(element, tonumber(ARGV[9]))
            end
        end
    end
    flush()
    notify()
    return reply((has_some or at_most > 0) and 1 or 0, -1, 0)
end

-- The score of the first member of a set. nil: it is empty.
local function first_of(set) return tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]) end

-- Makes elements ready whose delay or lease has ended.
local function due(set, phase)
    local ids = redis.call('ZRANGEBYSCORE', set, '-inf', digits(now), 'LIMIT', 0, SIDE_WORK)
    load(ids)
    for _, id in ipairs(ids) do
        local element = find(id)
        if not element or element.phase ~= phase then
            redis.call('ZREM', set, id) -- The server has evicted its state, or a right was missing.
        elseif phase == 't' and has(element.flags, IS_CANCELLED) then
            finish(element, 'c', '')
        else
            give_back(element)
        end
    end
end
local next_delayed, next_taken = first_of(delayed), first_of(taken)
local is_delayed_due, is_taken_due = next_delayed and next_delayed <= now, next_taken and next_taken <= now
if is_delayed_due then due(delayed, 'd') end
if is_taken_due then due(taken, 't') end
if is_delayed_due or is_taken_due then
    flush()
    next_delayed, next_taken = first_of(delayed), first_of(taken)
end
rings = false

-- The number of elements that the settings allow, and the time until the rate allows one.
local limits = redis.call('HMGET', settings, 'paused', 'concurrency', 'deliveries', 'per', 'next')
local is_paused, budget, wait, interval, burst = limits[1], at_most, nil, nil, nil
local next_delivery = math.max(tonumber(limits[5] or '0'), now)
-- The number of elements that the rate allows. If it is 0, `wait` is the time until it allows one.
local function allowed()
    local ahead = next_delivery - now
    local number = math.max(0, burst - math.ceil(ahead / interval))
    wait = number == 0 and math.max(0, ahead + interval - interval * burst) or nil
    return number
end
if is_paused then
    budget = 0
else
    if limits[2] then budget = math.max(0, math.min(budget, limits[2] - redis.call('ZCARD', taken))) end
    if limits[3] then
        local deliveries = tonumber(limits[3])
        burst = math.max(1, math.floor(deliveries / 50))
        interval = math.max(1, math.ceil(limits[4] / (deliveries - burst + 1)))
        budget = math.min(budget, allowed())
    end
end

-- An element that was delivered too often.
local function give_up(id)
    local element = find(id)
    local error_text = has(element.flags, HAS_ERROR) and redis.call('HGET', bodies, id .. ' e')
    die(element, error_text or 'no worker has completed it in ' .. element.attempt .. ' deliveries')
end

local limit, died, deliveries = budget, 0, tonumber(ARGV[7])
local ends, fence = after(now, ARGV[6]), budget > 0 and tonumber(redis.call('GET', last_fence) or '0')
local score = digits(ends)
while budget > 0 and died < SIDE_WORK and not is_cut do
    local members, found, scores, delivered = redis.call('ZRANGE', ready, 0, budget - 1), {}, {}, {}
    if #members == 0 then break end
    for at, member in ipairs(members) do found[at] = member:sub(18) end
    local part = {}
    for at, state in ipairs(fetch(elements, found)) do
        local id = found[at]
        local phase, flags, _, place, attempt, earlier = 'absent', nil, nil, nil, nil, nil
        if state then phase, flags, _, place, attempt, earlier = struct.unpack('>c1BI8I8I4I8', state) end
        if phase ~= 'r' then
            redis.call('ZREM', ready, members[at]) -- The server has evicted its state.
        elseif attempt >= deliveries then
            known[id] = read_state(id, state)
            give_up(id)
            died = died + 1
        else
            if part[at] == nil then
                local read = redis.call('HMGET', bodies, unpack(found, at, math.min(at + PART - 1, #found)))
                for number, payload in ipairs(read) do part[at + number - 1] = payload end
            end
            if not takes(part[at]) then break end
            fence = math.max(fence + 1, earlier + 1, now)
            -- Nothing changes for its key of order, so this does not need `update`.
            local new = struct.pack('>c1BI8I8I4I8c16I4', 't', flags, ends, place, attempt + 1, fence, take, 0)
            new = new .. state:sub(51)
            states[#states + 1], states[#states + 2] = id, new
            scores[#scores + 1], scores[#scores + 2] = score, id
            delivered[#delivered + 1] = members[at]
            deliver(id, new, flags, part[at])
        end
    end
    budget = budget - #delivered
    send('ZADD', taken, scores)
    flush()
    if #delivered == #members then
        redis.call('ZREMRANGEBYRANK', ready, 0, #members - 1)
    else
        send('ZREM', ready, delivered)
    end
end
if #ids > 0 then
    next_taken = math.min(next_taken or LATEST, ends)
    keep(remembered_as, take .. table.concat(ids), after(now, 300000000))
    -- Fences are times. They rise for a day also if the clock of the server is set back.
    redis.call('SET', last_fence, digits(fence), 'PX', 86400000)
    if interval then
        next_delivery = after(next_delivery, interval * #ids)
        redis.call('HSET', settings, 'next', digits(next_delivery))
        allowed()
    end
    flush()
end
forget(SIDE_WORK)

local is_full = limit == at_most and budget == 0
local has_more = (is_full or is_cut or died >= SIDE_WORK) and redis.call('EXISTS', ready) == 1
local next_time = math.min(next_delayed or LATEST, next_taken or LATEST, wait and now + wait or LATEST)
local next_in = (next_time == LATEST or is_paused) and -1 or math.max(0, next_time - now)
-- A taker that could have taken more is idle.
if #ids < at_most and not has_more then
    redis.call('ZREMRANGEBYSCORE', idle, '-inf', digits(now - IDLE_FOR))
    redis.call('ZADD', idle, digits(now), taker)
    redis.call('PEXPIRE', idle, 5000)
end
rings = has_more
notify()
return reply(has_more and 1 or 0, next_in, died)
