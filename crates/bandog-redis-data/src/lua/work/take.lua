-- Takes elements of a work queue, each with a lease.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2] the taker, ARGV[3] the take: 8 bytes of the taker and 8 of the number, ARGV[4] 1 if it is repeated
-- ARGV[5] the maximum number, ARGV[6] the lease, ARGV[7] the number of deliveries after which an element becomes dead
-- Reply: whether more elements are ready, the time until one may become ready or -1, the number of elements that became
-- dead, the time, and for each element its id, its state, its payload and its error
local SIDE_WORK = 100
local taker, take, at_most = ARGV[2], ARGV[3], math.min(ARGV[5], 1000)
-- A server whose memory is full refuses a script that begins with a write that needs memory. But takes lead to less of it.
redis.call('ZREM', idle, taker)
local remembered_as = 't' .. take:sub(1, 8) .. string.char(take:byte(16) % 16)

local function error_of(element)
    return has(element.flags, HAS_ERROR) and redis.call('HGET', bodies, element.id .. ' e')
end

local function deliver(reply, found)
    local ids = {}
    for at, element in ipairs(found) do ids[at] = element.id end
    for at, payload in ipairs(fetch(bodies, ids)) do
        local from, element = #reply, found[at]
        reply[from + 1], reply[from + 2], reply[from + 3] = element.id, state_of(element), payload or ''
        reply[from + 4] = error_of(element) or false
    end
    return reply
end

if ARGV[4] == '1' then
    local text = redis.call('HGET', kept, remembered_as)
    local ids, found = {}, {}
    if text and text:sub(1, 16) == take then
        for from = 17, #text, 33 do ids[#ids + 1] = text:sub(from, from + 32) end
    end
    load(ids)
    for _, id in ipairs(ids) do
        local element = find(id)
        if element and element.phase == 't' and element.by == take then found[#found + 1] = element end
    end
    if #found > 0 then return deliver({1, -1, 0, now}, found) end
end

-- The score of the first member of a set. nil: it is empty.
local function first_of(set) return tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]) end

-- Makes elements ready whose delay or lease has ended.
local function due(set)
    local ids = redis.call('ZRANGEBYSCORE', set, '-inf', digits(now), 'LIMIT', 0, SIDE_WORK)
    load(ids)
    for _, id in ipairs(ids) do
        local element = find(id)
        if not element then
            redis.call('ZREM', set, id) -- The server has evicted it.
        elseif set == taken and has(element.flags, IS_CANCELLED) then
            finish(element, 'c', '')
        else
            give_back(element)
        end
    end
end
local next_delayed, next_taken = first_of(delayed), first_of(taken)
local is_delayed_due, is_taken_due = next_delayed and next_delayed <= now, next_taken and next_taken <= now
if is_delayed_due then due(delayed) end
if is_taken_due then due(taken) end
if is_delayed_due or is_taken_due then
    flush()
    next_delayed, next_taken = first_of(delayed), first_of(taken)
end
rings = false

-- The number of elements that the settings allow, and the time until the rate allows one.
local limits = redis.call('HMGET', settings, 'paused', 'concurrency', 'deliveries', 'per', 'next')
local is_paused, budget, wait, interval = limits[1], at_most, nil, nil
local next_delivery = math.max(tonumber(limits[5] or '0'), now)
if is_paused then
    budget = 0
else
    if limits[2] then budget = math.max(0, math.min(budget, limits[2] - redis.call('ZCARD', taken))) end
    if limits[3] then
        local deliveries = tonumber(limits[3])
        local burst = math.max(1, math.floor(deliveries / 50))
        interval = math.max(1, math.ceil(limits[4] / (deliveries - burst + 1)))
        local ahead = next_delivery - now
        local allowed = math.max(0, burst - math.ceil(ahead / interval))
        if allowed == 0 then wait = math.max(0, ahead + interval - interval * burst) end
        budget = math.min(budget, allowed)
    end
end

local limit, died, delivered, fence = budget, 0, {}, nil
while budget > 0 and died < SIDE_WORK do
    local members = redis.call('ZRANGE', ready, 0, budget - 1)
    if #members == 0 then break end
    local ids = {}
    for at, member in ipairs(members) do ids[at] = member:sub(-33) end
    load(ids)
    fence = fence or tonumber(redis.call('GET', last_fence) or '0')
    local ends, score = after(now, ARGV[6]), nil
    for at, id in ipairs(ids) do
        local element = find(id)
        if not element or element.phase ~= 'r' then
            redis.call('ZREM', ready, members[at]) -- The server has evicted its state.
        elseif element.attempt >= tonumber(ARGV[7]) then
            local text = 'no worker has completed it in ' .. element.attempt .. ' deliveries'
            die(element, error_of(element) or text)
            died = died + 1
        else
            element.attempt = element.attempt + 1
            fence = math.max(fence + 1, element.fence + 1, now)
            element.phase, element.at, element.fence, element.by = 't', ends, fence, take
            update(element)
            delivered[#delivered + 1] = element
            budget = budget - 1
        end
    end
    if budget > 0 then flush() end -- The next elements are read.
end
if #delivered > 0 then
    next_taken = math.min(next_taken or LATEST, delivered[1].at)
    local names = {take}
    for at, element in ipairs(delivered) do names[at + 1] = element.id end
    keep(remembered_as, table.concat(names), after(now, 300000000))
    -- Fences are times. They rise for a day also if the clock of the server is set back.
    redis.call('SET', last_fence, digits(fence), 'PX', 86400000)
    if interval then
        redis.call('HSET', settings, 'next', digits(after(next_delivery, interval * #delivered)))
    end
end
flush()
forget(SIDE_WORK)

local has_more = (limit == at_most and budget == 0 or died >= SIDE_WORK) and redis.call('EXISTS', ready) == 1
local next_time = math.min(next_delayed or LATEST, next_taken or LATEST, wait and now + wait or LATEST)
local next_in = (next_time == LATEST or is_paused) and -1 or math.max(0, next_time - now)
-- A taker that could have taken more is idle.
if #delivered < at_most and not has_more then
    redis.call('ZADD', idle, digits(now), taker)
    redis.call('PEXPIRE', idle, 5000)
end
rings = has_more
notify()
return deliver({has_more and 1 or 0, next_in, died, now}, delivered)
