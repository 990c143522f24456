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

-- Gives a key that was made, or that has lost its ttl, this ttl, as PTTL has returned it for another key: a negative number is
-- none, and 0 is the last millisecond of a ttl, in which a key still lives.
local function set_ttl(key, ttl)
    if ttl >= 0 then redis.call('PEXPIRE', key, math.max(ttl, 1)) end
end

-- Operations with an id: the hash `key` has a field for each answer that is remembered, CLIENT and its number, and a field
-- CLIENT with the lowest number that the client can still repeat, the time until which it is remembered, and the number up to
-- which answers are forgotten: a client numbers its operations on all keys, so few of them are on this one. ARGV[at] is the
-- client ('' if the operation has no id), ARGV[at + 1] the number of the operation, ARGV[at + 2] the time for which it is
-- remembered in ms, ARGV[at + 3] the lowest number that this client can still repeat.

-- The lowest number of this client, if it is known. `remembered` reads it for `remember`.
local lowest_number, forgotten

-- The remembered answer of this operation, or nil. A request that arrives after its answer was forgotten is refused: it was
-- applied, or its client has given it up.
local function remembered(key, at)
    if (ARGV[at] or '') == '' then return nil end
    local found = redis.call('HMGET', key, ARGV[at], ARGV[at] .. ' ' .. ARGV[at + 1])
    if found[1] then
        local lowest, last = found[1]:match('^(%d+) %d+ (%d+)$')
        lowest_number, forgotten = tonumber(lowest), tonumber(last)
    end
    if tonumber(ARGV[at + 1]) < math.max(lowest_number or 0, tonumber(ARGV[at + 3])) then
        error({err = 'LATE the request has arrived too late'})
    end
    return found[2] and cmsgpack.unpack(found[2])[2] or nil
end

-- Remembers the answer of this operation, for which `remembered` has returned nil. The time does not depend on the number
-- of answers.
local function remember(key, at, answer)
    local client = ARGV[at] or ''
    if client == '' then return end
    local now = micros() / 1000
    local before, ends = math.max(tonumber(ARGV[at + 3]), lowest_number or 0), now + ARGV[at + 2]
    local from = forgotten or before
    local to = math.min(before, from + 5000)
    for first = from, to - 1, 1000 do
        local fields = {}
        for number = first, math.min(first + 999, to - 1) do
            fields[#fields + 1] = string.format('%s %.0f', client, number)
        end
        redis.call('HDEL', key, unpack(fields))
    end
    redis.call('HSET', key, client .. ' ' .. ARGV[at + 1], cmsgpack.pack({ends, answer}),
        client, string.format('%.0f %.0f %.0f', before, ends, to))
    if redis.call('PTTL', key) < tonumber(ARGV[at + 2]) then redis.call('PEXPIRE', key, ARGV[at + 2]) end
    -- Clients that have gone leave their fields. Each call examines a few.
    if redis.call('HLEN', key) > 1000 then
        local fields = redis.call('HRANDFIELD', key, 20, 'WITHVALUES')
        for at = 1, #fields, 2 do
            local until_ms = fields[at]:find(' ', 1, true) and cmsgpack.unpack(fields[at + 1])[1]
                or tonumber(fields[at + 1]:match(' (%d+) '))
            if until_ms <= now then redis.call('HDEL', key, fields[at]) end
        end
    end
end
