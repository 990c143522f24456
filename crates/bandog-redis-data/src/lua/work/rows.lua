-- Functions of the scripts of work queues. They read elements into a table, change them there, and write all of them in a
-- few commands (`flush`).
--
-- KEYS[1] elements: a hash, id -> state, see `read_state`
-- KEYS[2] bodies: a hash, id -> payload or envelope (`bandog_core::queues::envelope`), id .. ' e' -> error, id .. ' p' -> progress
-- KEYS[3] ready: a sorted set with the score 0 of `ready_member`, which sort by their priority, time and id
-- KEYS[4] delayed, KEYS[5] taken, KEYS[6] dead, KEYS[7] blocked: sorted sets of ids; the scores are `at`
-- KEYS[8] order: a sorted set with the score 0, for each key of order: its length in a byte, the key, and '0' if an element
-- with it is ready, delayed or taken, and '1', the time and the id for each blocked one whose predecessors are done
-- KEYS[9] kept: a hash, what is kept for a time: 'o' and an id of the user, 'r' and the id of an element with a result, 't' and
-- a take, 'w' and a worker
-- KEYS[10] expiry: a sorted set of the fields of `kept`, and of 'p' and the first id for each push; the scores are the times
-- until which they are kept
-- KEYS[11] settings: a hash: paused, concurrency, deliveries, per (of the rate), next (the time of the next delivery)
-- KEYS[12] the last fence
-- KEYS[13] idle: a sorted set of takers that want elements; the scores are the times of their last takes
-- KEYS[14] workers: a sorted set of workers; the scores are the times until which they are shown
-- KEYS[15] the layout: a string, '2' while the queue may have envelopes. Then `taken`, `expiry` and `idle` are KEYS[16] to
-- KEYS[18], and the keys of the layout 1 have a text, so that the first command of a script of an older program fails.
-- ARGV[1] the number of idle takers to which a message may be sent until one of them receives it
--
-- Reply of each script that does nothing because of the layout: the error LAYOUT and its number.
-- All times are in microseconds. An id is the two numbers with 16 hexadecimal digits each, so ids sort as numbers do.
local elements, bodies, ready, delayed, taken, dead, blocked, order, kept, expiry, settings, last_fence, idle, workers =
    unpack(KEYS)
local layout = tonumber(redis.call('GET', KEYS[15]) or '1')
if layout > 2 or layout == 2 and not KEYS[18] then return redis.error_reply('LAYOUT ' .. layout) end
if layout == 2 then taken, expiry, idle = KEYS[16], KEYS[17], KEYS[18] end
local sets = {r = ready, d = delayed, b = blocked, t = taken, x = dead}
local now = micros()
local IDLE_FOR = 2000000
local LATEST, IS_CANCELLED, HAS_ERROR, HAS_PROGRESS, NOBODY = 2 ^ 53 - 1, 1, 2, 4, ('\0'):rep(16)

local function after(time, delay) return math.min(time + delay, LATEST) end
local function digits(time) return string.format('%016.0f', time) end

-- Runs a command with any number of arguments in parts. The parts begin at odd arguments.
local function send(command, key, args)
    for from = 1, #args, 2000 do
        redis.call(command, key, unpack(args, from, math.min(from + 1999, #args)))
    end
end

-- The values of any number of fields.
local function fetch(key, fields)
    local all = {}
    for from = 1, #fields, 2000 do
        local part = redis.call('HMGET', key, unpack(fields, from, math.min(from + 1999, #fields)))
        if #fields <= 2000 then return part end
        for _, value in ipairs(part) do all[#all + 1] = value end
    end
    return all
end

local function has(flags, flag) return flags % (2 * flag) >= flag end
local function with(flags, flag, is_set)
    if has(flags, flag) == is_set then return flags end
    return is_set and flags + flag or flags - flag
end

local function ready_member(priority, at, id) return (9 - priority) .. digits(at) .. id end
local function member_of(element, phase, at)
    return phase == 'r' and ready_member(element.priority, at, element.id) or element.id
end

-- What `order` has of an element behind its key, or nil.
local function place_in_order(element)
    if element.is_removed or element.phase == 'x' then return nil end
    if element.phase ~= 'b' then return '0' end
    return element.waits == 0 and '1' .. digits(element.at) .. element.id or nil
end
local function prefix_of(key) return string.char(#key) .. key end

-- A state is: the phase (r, d, b, t, x), the flags, at, place, the number of deliveries, the fence, the take, the number of
-- predecessors that are not done; and what never changes: the priority, the time of the push, the time for which a result is
-- kept plus 1 (0: it is not kept), whether an element waits for this one, its id, and the key of order.
local function read_state(id, state)
    local phase, flags, at, place, attempt, fence, by, waits, priority, pushed, keep, has_next =
        struct.unpack('>c1BI8I8I4I8c16I4BI8I8B', state)
    local element = {
        id = id, phase = phase, flags = flags, at = at, place = place, attempt = attempt, fence = fence, by = by,
        waits = waits, priority = priority, pushed = pushed, keep = keep, fixed = state:sub(51), was = phase,
        was_at = at, next = false, key = false, in_order = false, is_dirty = false, is_removed = false,
    }
    if has_next == 1 then element.next = state:sub(69, 101) end
    local from = has_next == 1 and 102 or 69
    if #state >= from then
        element.key = state:sub(from)
        element.in_order = place_in_order(element) or false
    end
    return element
end

local function state_of(element)
    return struct.pack('>c1BI8I8I4I8c16I4', element.phase, element.flags, element.at, element.place, element.attempt,
        element.fence, element.by, element.waits) .. element.fixed
end

-- The elements that were read, or false for those that do not exist, and those that have changed.
local known, changed = {}, {}

local function load(ids)
    local missing = {}
    for _, id in ipairs(ids) do
        if known[id] == nil then
            missing[#missing + 1] = id
            known[id] = false
        end
    end
    for at, state in ipairs(fetch(elements, missing)) do
        if state then known[missing[at]] = read_state(missing[at], state) end
    end
end

local function find(id)
    if known[id] == nil then load({id}) end
    local element = known[id]
    return element and not element.is_removed and element or nil
end

-- Notes that an element has changed. The key of order is changed at once.
local function update(element)
    if not element.is_dirty then
        element.is_dirty = true
        changed[#changed + 1] = element
    end
    if not element.key then return end
    local place, before = place_in_order(element) or false, element.in_order
    if place == before then return end
    local prefix = prefix_of(element.key)
    if place then redis.call('ZADD', order, 0, prefix .. place) end
    if before then redis.call('ZREM', order, prefix .. before) end
    element.in_order = place
end

-- Whether an element with this key of order is ready, delayed or taken, and the id of the first blocked one.
local function of_order(key)
    local prefix = prefix_of(key)
    local found = redis.call('ZRANGEBYLEX', order, '[' .. prefix .. '0', '(' .. prefix .. '2', 'LIMIT', 0, 2)
    local has_head = found[1] == prefix .. '0'
    local first = found[has_head and 2 or 1]
    return has_head, first and first:sub(-33)
end

-- What `flush` writes beside the changed elements.
local states, texts, no_texts, in_ready = {}, {}, {}, {}
local keep_fields, keep_times, forget_fields, keep_until = {}, {}, {}, 0
local rings, result_clients = false, {}

local function set_text(element, suffix, flag, text)
    local had = has(element.flags, flag)
    element.flags = with(element.flags, flag, text ~= nil)
    if text then
        texts[#texts + 1], texts[#texts + 2] = element.id .. suffix, text
    elseif had then
        no_texts[#no_texts + 1] = element.id .. suffix
    end
end
local function set_error(element, text) set_text(element, ' e', HAS_ERROR, text) end
local function set_progress(element, text) set_text(element, ' p', HAS_PROGRESS, text) end

-- Keeps a text, or nothing but the field, for a time.
local function keep(field, text, ends)
    if text then keep_fields[#keep_fields + 1], keep_fields[#keep_fields + 2] = field, text end
    keep_times[#keep_times + 1], keep_times[#keep_times + 2] = ends, field
    keep_until = math.max(keep_until, ends)
end

-- A key that is kept until a time gets a ttl that is a minute longer, so that not each call sets it.
local function set_ttl(key, ends)
    local ttl = math.ceil((ends - now) / 1000) + 1000
    if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, string.format('%.0f', ttl + 60000)) end
end

-- Writes all changes: the new places, the states, and then what is removed. If the user lacks a right, the script ends at the
-- first command that is refused, and the element is still at one of its places. The first command of a push needs memory, so
-- a server whose memory is full refuses the whole push.
local function flush()
    if #texts > 0 then send('HSET', bodies, texts) end
    local scores, members, gone = {r = in_ready}, {}, {}
    for _, element in ipairs(changed) do
        local phase, at, was, was_at = element.phase, element.at, element.was, element.was_at
        local is_removed, is_moved = element.is_removed, phase ~= was or at ~= was_at
        element.is_dirty = false
        if is_removed then
            gone[#gone + 1] = element.id
            no_texts[#no_texts + 1] = element.id
            if has(element.flags, HAS_ERROR) then no_texts[#no_texts + 1] = element.id .. ' e' end
            if has(element.flags, HAS_PROGRESS) then no_texts[#no_texts + 1] = element.id .. ' p' end
        else
            states[#states + 1], states[#states + 2] = element.id, state_of(element)
            if is_moved then
                local list = scores[phase] or {}
                scores[phase] = list
                list[#list + 1] = phase == 'r' and 0 or digits(at)
                list[#list + 1] = member_of(element, phase, at)
            end
        end
        if was and (is_removed or phase ~= was or phase == 'r' and is_moved) then
            local list = members[was] or {}
            members[was] = list
            list[#list + 1] = member_of(element, was, was_at)
        end
        element.was, element.was_at = phase, at
    end
    for phase, list in pairs(scores) do send('ZADD', sets[phase], list) end
    if #states > 0 then send('HSET', elements, states) end
    if #keep_fields > 0 then
        send('HSET', kept, keep_fields)
        set_ttl(kept, keep_until)
    end
    if #keep_times > 0 then
        send('ZADD', expiry, keep_times)
        set_ttl(expiry, keep_until)
        keep_fields, keep_times, keep_until = {}, {}, 0
    end
    for phase, list in pairs(members) do send('ZREM', sets[phase], list) end
    send('HDEL', elements, gone)
    send('HDEL', bodies, no_texts)
    if #forget_fields > 0 then
        send('HDEL', kept, forget_fields)
        send('ZREM', expiry, forget_fields)
        forget_fields = {}
    end
    changed, states, texts, no_texts, in_ready = {}, {}, {}, {}, {}
end

-- Removes what was kept until now, at most this number.
local function forget(at_most)
    local over = redis.call('ZRANGEBYSCORE', expiry, '-inf', digits(now), 'LIMIT', 0, math.min(at_most, 2000))
    if #over == 0 then return end
    send('HDEL', kept, over)
    redis.call('ZREMRANGEBYRANK', expiry, 0, #over - 1)
end

-- Sends what was noted to those that wait: results to their clients, and a wake-up to the idle taker that has asked last. A
-- message that nobody receives goes to the next taker. Takers that have not asked for 2 s have gone.
local function notify()
    local channel = KEYS[13]:sub(1, -5)
    for client in pairs(result_clients) do redis.pcall('publish', channel .. 'results:' .. client, '') end
    for _ = 1, rings and tonumber(ARGV[1]) or 0 do
        local found = redis.call('ZREVRANGE', idle, 0, 0, 'WITHSCORES')
        if #found == 0 then return end
        if tonumber(found[2]) < now - IDLE_FOR then
            redis.call('DEL', idle)
            return
        end
        redis.call('ZREM', idle, found[1])
        local receivers = redis.pcall('publish', channel .. 'taker:' .. found[1], '')
        if type(receivers) ~= 'number' or receivers > 0 then return end
    end
end
