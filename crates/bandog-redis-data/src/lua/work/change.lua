-- Changes a work queue, for operators.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2] the verb
-- Reply: the number of changed elements
local MAX_CHANGES = 1000
local verb, count = ARGV[2], 0
-- A server whose memory is full refuses a script that begins with a write that needs memory.
redis.call('ZREM', taken, '')

if verb == 'set' then
    -- ARGV[3..] fields of the settings and their values. An empty value removes the field
    for at = 3, #ARGV, 2 do
        if ARGV[at + 1] == '' then
            redis.call('HDEL', settings, ARGV[at])
            -- The time of the next delivery belongs to the rate.
            if ARGV[at] == 'deliveries' then redis.call('HDEL', settings, 'next') end
        else
            redis.call('HSET', settings, ARGV[at], ARGV[at + 1])
        end
    end
    rings = true
elseif verb == 'retry' or verb == 'remove' or verb == 'withdraw' then
    -- ARGV[3..] the ids. None: the first dead ones
    local ids = {}
    for at = 3, #ARGV do ids[#ids + 1] = ARGV[at] end
    if verb == 'retry' and #ids == 0 then ids = redis.call('ZRANGE', dead, 0, MAX_CHANGES - 1) end
    load(ids)
    for _, id in ipairs(ids) do
        local element = find(id)
        if element and verb == 'retry' then
            if element.phase == 'x' then
                element.attempt, element.place = 0, now
                element.flags = with(element.flags, IS_CANCELLED, false)
                admit(element)
                update(element)
                forget_fields[#forget_fields + 1] = 'r' .. id
                count = count + 1
            end
        elseif element and verb == 'withdraw' then
            if element.attempt == 0 and element.phase ~= 't' then
                finish(element, 'c', '')
                count = count + 1
            end
        elseif element then
            count = count + 1
            if element.phase == 't' then
                element.flags = with(element.flags, IS_CANCELLED, true)
                update(element)
            else
                finish(element, 'c', '')
            end
        end
    end
    rings = rings or verb == 'retry'
elseif verb == 'purge' then
    -- ARGV[3] the phase
    local members = redis.call('ZRANGE', sets[ARGV[3]], 0, MAX_CHANGES - 1)
    local ids = {}
    for at, member in ipairs(members) do ids[at] = member:sub(-33) end
    load(ids)
    for at, id in ipairs(ids) do
        local element = find(id)
        if element then
            finish(element, 'c', '')
            count = count + 1
        else
            redis.call('ZREM', sets[ARGV[3]], members[at])
        end
    end
else
    -- ARGV[3] the worker, ARGV[4] its row, ARGV[5] the time for which it is shown
    local ends = after(now, ARGV[5])
    redis.call('ZREMRANGEBYSCORE', workers, '-inf', digits(now))
    keep('w' .. ARGV[3], ARGV[4], ends)
    redis.call('ZADD', workers, digits(ends), ARGV[3])
    set_ttl(workers, ends)
    flush()
    forget(100)
    -- Without elements, the queue has the layout 1 again: nothing of the newer one stays.
    if layout == 2 and redis.call('EXISTS', elements) == 0 then
        for number, older in ipairs({KEYS[5], KEYS[10], KEYS[13]}) do
            if redis.call('EXISTS', KEYS[15 + number]) == 1 then
                redis.call('RENAME', KEYS[15 + number], older)
            else
                redis.call('DEL', older)
            end
        end
        redis.call('DEL', KEYS[15])
        taken, expiry, idle = KEYS[5], KEYS[10], KEYS[13]
    end
end
flush()
notify()
return count
