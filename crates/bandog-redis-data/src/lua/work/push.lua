-- Adds elements to a work queue.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2] the time for which the push is remembered
-- ARGV[3] 1 if a payload is an envelope; then KEYS[16] to KEYS[18] are given
-- ARGV[4..] for each element its id, its payload, and its options: '' for none, or the priority, the time for which its
-- result is kept plus 1, the number of predecessors, the sort of the time and the time at which it becomes ready (0: now, 1:
-- after, 2: at), the window of its own id, the lengths of this id and of the id of the element that waits for it, the two
-- ids, and the key of order
-- Reply: for each element 1 if it is new, or the id of the one that was pushed before; or the error OLDWORKERS and the place of
-- a worker that does not know envelopes: nothing was added
if not ARGV[4] then return {} end

-- Changes to the layout 2. Returns the place of a worker that does not know it, if there is one: then nothing is changed.
local function raise()
    local known = redis.call('ZRANGEBYSCORE', workers, '(' .. digits(now), '+inf', 'LIMIT', 0, 10000)
    for at, id in ipairs(known) do known[at] = 'w' .. id end
    for _, row in ipairs(fetch(kept, known)) do
        local place = row and row:match('^%S+ %S+ %S+ %S+ %S+ (.*)$')
        if place and tonumber(place:match(' layout=(%d+)$') or '1') < 2 then return place end
    end
    -- A server whose memory is full refuses a script that begins with a write that needs memory.
    redis.call('SET', KEYS[15], '1', 'PX', 1000)
    for number, older in ipairs({KEYS[5], KEYS[10], KEYS[13]}) do
        if redis.call('EXISTS', older) == 1 then redis.call('RENAME', older, KEYS[15 + number]) end
        redis.call('SET', older, 'the queue has elements of the layout 2: use a newer bandog')
    end
    redis.call('SET', KEYS[15], '2')
    taken, expiry, idle = KEYS[16], KEYS[17], KEYS[18]
    sets.t = taken
end
if ARGV[3] == '1' and layout == 1 then
    local older = raise()
    if older then return redis.error_reply('OLDWORKERS ' .. older) end
end

local is_repeated = redis.call('ZSCORE', expiry, 'p' .. ARGV[4]) ~= false
local answers, is_ready = {}, false

local function state_with(priority, keep_time, following, key)
    return struct.pack('>BI8I8B', priority, now, keep_time, #following > 0 and 1 or 0) .. following .. key
end

-- Elements without options have the same state.
local plain = {phase = 'r', flags = 0, at = now, place = now, attempt = 0, fence = 0, by = NOBODY, waits = 0}
plain.fixed = state_with(0, 0, '', '')
local plain_state, plain_ready = state_of(plain), ready_member(0, now, '')

-- The id of the element that has used an id of the user, and the end of its window.
local used = {}
local function read_used(id)
    local found = used[id]
    if not found then
        local text = redis.call('HGET', kept, 'o' .. id)
        found = text and {text:sub(17), tonumber(text:sub(1, 16))} or {}
        used[id] = found
    end
    return found
end

for at = 4, #ARGV, 3 do
    local id, options = ARGV[at], ARGV[at + 2]
    local answer = 1
    if options == '' then
        if not is_repeated then
            states[#states + 1], states[#states + 2] = id, plain_state
            texts[#texts + 1], texts[#texts + 2] = id, ARGV[at + 1]
            in_ready[#in_ready + 1], in_ready[#in_ready + 2] = 0, plain_ready .. id
            is_ready = true
        end
    else
        local priority, keep_time, waits, sort, time, window, once_length, next_length, from =
            struct.unpack('>BI8I4BI8I8BB', options)
        local once = options:sub(from, from + once_length - 1)
        from = from + once_length
        local following, key = options:sub(from, from + next_length - 1), options:sub(from + next_length)
        local by = once ~= '' and read_used(once) or {}
        if by[1] and (by[2] > now or is_repeated) then
            if by[1] ~= id then answer = by[1] end
        else
            if once ~= '' then
                local ends = after(now, window)
                used[once] = {id, ends}
                keep('o' .. once, digits(ends) .. id, ends)
            end
            if not is_repeated then
                local place = now
                if sort == 1 then place = after(now, time) elseif sort == 2 then place = math.max(now, time) end
                local element = {
                    id = id, phase = 'b', flags = 0, at = now, place = place, attempt = 0, fence = 0, by = NOBODY,
                    waits = waits, priority = priority, key = key ~= '' and key, in_order = false,
                    fixed = state_with(priority, keep_time, following, key),
                }
                texts[#texts + 1], texts[#texts + 2] = id, ARGV[at + 1]
                if waits == 0 then admit(element) end
                update(element)
                is_ready = is_ready or element.phase == 'r'
            end
        end
    end
    answers[#answers + 1] = answer
end
if not is_repeated then keep('p' .. ARGV[4], nil, after(now, ARGV[2])) end
rings = is_ready
flush()
forget(math.max(100, 2 * #answers))
notify()
return answers
