-- The rules of work queues that several scripts need. They are those of `bandog_core::queues::rules`.

-- An element that nothing blocks is ready, or delayed until its place.
local function admit_head(element)
    element.phase, element.at = element.place > now and 'd' or 'r', element.place
end

-- An element whose predecessors are done is ready or delayed, unless its key of order blocks it.
local function admit(element)
    if element.key then
        local has_head, first = of_order(element.key)
        if has_head or first and first ~= element.id then
            element.phase, element.at = 'b', now
            return
        end
    end
    admit_head(element)
end

-- The next element with this key of order can be taken, if no other one is ready, delayed or taken.
local function unblock(key)
    local has_head, first = of_order(key)
    local element = not has_head and first and find(first)
    if not element then return end
    admit_head(element)
    update(element)
    rings = true
end

-- Keeps how an element has ended (d: done, f: failed, c: cancelled), if its pusher has asked for it.
local function keep_result(element, kind, text)
    if element.keep == 0 then return end
    local ends = after(now, element.keep - 1)
    keep('r' .. element.id, digits(ends) .. kind .. text, ends)
    result_clients[element.id:sub(1, 16)] = true
end

-- Removes an element that has ended.
local function finish(element, kind, text)
    element.is_removed = true
    update(element)
    keep_result(element, kind, text)
    local following = kind == 'd' and element.next and find(element.next)
    if following and following.waits > 0 then
        following.waits = following.waits - 1
        if following.waits == 0 then
            admit(following)
            rings = rings or following.phase == 'r'
        end
        update(following)
    end
    if element.key and element.phase ~= 'x' then unblock(element.key) end
end

-- Makes an element dead.
local function die(element, text)
    element.phase, element.at, element.by = 'x', now, NOBODY
    set_error(element, text)
    set_progress(element, nil)
    update(element)
    keep_result(element, 'f', text)
    if element.key then unblock(element.key) end
end

-- An element is ready again, at its place.
local function give_back(element)
    element.phase, element.at, element.by = 'r', element.place, NOBODY
    update(element)
end

-- A taken element is ready again at its place, as if it had not been delivered, or delayed by this time.
local function hand_back(element, delay)
    if has(element.flags, IS_CANCELLED) then
        finish(element, 'c', '')
        return
    end
    element.attempt = math.max(0, element.attempt - 1)
    if delay > 0 then
        element.phase, element.place, element.by = 'd', after(now, delay), NOBODY
        element.at = element.place
        update(element)
    else
        give_back(element)
    end
    rings = true
end
