-- Ends deliveries of a work queue.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2..] for each delivery the id, the way it ends (d: done, r: retry, f: failed, h: handed back) and the fence, and a
-- text: the result, the delay in 16 digits and the error, the error, or the delay
-- Reply: for each delivery 0 if it is applied, 1 if the element is absent, 2 if a later delivery has begun
-- A server whose memory is full refuses a script that begins with a write that needs memory. But this one frees it.
redis.call('ZREM', taken, '')
local ids, answers = {}, {}
for at = 2, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end

-- The length of a state without a key of order and without an element that waits for it.
local PLAIN = 68

local function settle(element, fence, kind, text)
    if not element then return 1 end
    if element.fence ~= fence then return 2 end
    local is_dead, is_taken = element.phase == 'x', element.phase == 't'
    if kind == 'd' then
        -- Also after the end of the lease, because no later delivery has begun.
        finish(element, 'd', text)
    elseif kind == 'f' then
        if is_dead then return 0 end
        if has(element.flags, IS_CANCELLED) then finish(element, 'c', '') else die(element, text) end
    elseif is_dead then
        return 2
    elseif is_taken then -- If not, it was settled before, or its lease has ended.
        if kind == 'h' then
            hand_back(element, tonumber(text))
        elseif has(element.flags, IS_CANCELLED) then
            finish(element, 'c', '')
        else
            element.place, element.by = after(now, text:sub(1, 16)), NOBODY
            admit_head(element)
            set_error(element, text:sub(17))
            set_progress(element, nil)
            update(element)
            rings = true
        end
    end
    return 0
end

local plain = {}
for at, state in ipairs(fetch(elements, ids)) do
    local id, end_of, text = ids[at], ARGV[3 * at], ARGV[3 * at + 1]
    local kind, fence, is_plain = end_of:sub(1, 1), tonumber(end_of:sub(2)), false
    if state and kind == 'd' and #state == PLAIN then
        -- Most elements have no options and no texts, and are done.
        local phase, flags, _, _, _, last, _, _, _, _, keep_time = struct.unpack('>c1BI8I8I4I8c16I4BI8I8', state)
        is_plain = phase == 't' and last == fence and keep_time == 0 and flags < HAS_ERROR and not known[id]
    end
    if is_plain then
        plain[#plain + 1] = id
        answers[at] = 0
    else
        if known[id] == nil then known[id] = state and read_state(id, state) end
        answers[at] = settle(find(id), fence, kind, text)
    end
end
send('ZREM', taken, plain)
send('HDEL', elements, plain)
send('HDEL', bodies, plain)
flush()
-- The takers that the limit has kept out.
if redis.call('HEXISTS', settings, 'concurrency') == 1 and redis.call('EXISTS', ready) == 1 then rings = true end
notify()
return answers
