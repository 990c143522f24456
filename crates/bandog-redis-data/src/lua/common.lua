-- Functions of all scripts.

-- The time of the server in microseconds. It is the same during a script.
local time_now
local function micros()
    if not time_now then
        local time = redis.call('TIME')
        time_now = time[1] * 1000000 + time[2]
    end
    return time_now
end

-- Raises the error of a key of another type, before the first write.
local function must_be(key, kind)
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
        error({err = 'WRONGTYPE Operation against a key holding the wrong kind of value'})
    end
end

-- Operations with an id: the hash `key` has a field for each client, with its answers that are remembered, and the lowest
-- number that it can still repeat. ARGV[at] is the client ('' if the operation has no id), ARGV[at + 1] the number of the
-- operation, ARGV[at + 2] the time for which it is remembered in ms, ARGV[at + 3] the lowest number that this client can still
-- repeat.

-- The answers that are remembered for this client, and its lowest number. `remembered` reads them for `remember`.
local kept_answers, lowest_number

-- The remembered answer of this operation, or nil. A request that arrives after its answer was forgotten is refused: it was
-- applied, or its client has given it up.
local function remembered(key, at)
    if (ARGV[at] or '') == '' then return nil end
    local packed = redis.call('HGET', key, ARGV[at])
    if not packed then return nil end
    kept_answers, lowest_number = unpack(cmsgpack.unpack(packed))
    if tonumber(ARGV[at + 1]) < math.max(lowest_number, tonumber(ARGV[at + 3])) then
        error({err = 'LATE the request has arrived too late'})
    end
    for _, answer in ipairs(kept_answers) do
        if answer[1] == ARGV[at + 1] then return answer[3] end
    end
    return nil
end

-- Remembers the answer of this operation, for which `remembered` has returned nil.
local function remember(key, at, answer)
    local client = ARGV[at] or ''
    if client == '' then return end
    local now, before, kept = micros() / 1000, math.max(tonumber(ARGV[at + 3]), lowest_number or 0), {}
    for _, other in ipairs(kept_answers or {}) do
        if tonumber(other[1]) >= before and other[2] > now then kept[#kept + 1] = other end
    end
    kept[#kept + 1] = {ARGV[at + 1], now + ARGV[at + 2], answer}
    redis.call('HSET', key, client, cmsgpack.pack({kept, before}))
    if redis.call('PTTL', key) < tonumber(ARGV[at + 2]) then redis.call('PEXPIRE', key, ARGV[at + 2]) end
    -- Clients that have gone leave their fields. Each new client examines a few.
    if not kept_answers and redis.call('HLEN', key) > 1000 then
        for _, field in ipairs(redis.call('HRANDFIELD', key, 10)) do
            local others = cmsgpack.unpack(redis.call('HGET', key, field))[1]
            if others[#others][2] <= now then redis.call('HDEL', key, field) end
        end
    end
end
