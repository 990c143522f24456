-- Reads the items of an object by steps, until a page is full. `read` gets where a step begins and the number of its items, and
-- returns where the next one begins, which is '0' at the end, and its items. It may be asked for the same step again, for fewer
-- items. The page has about `at_most` items and at most this number of bytes, but at least one item. Returns where the next page
-- begins, and the items.
local function read_page(from, at_most, bytes, read)
    local items, asked, length, step = {}, 0, 0, 4
    if at_most <= 0 then return from, items end
    while true do
        step = math.min(step, at_most - asked)
        local next, found = read(from, step)
        local more = 0
        for _, item in ipairs(found) do more = more + #item end
        if length + more > bytes and step > 1 then
            step = 1
        elseif length + more > bytes and #items > 0 then
            return from, items
        else
            for _, item in ipairs(found) do items[#items + 1] = item end
            from, asked, length = next, asked + step, length + more
            if from == '0' or asked >= at_most then return from, items end
            -- As many as still fit, if they are as long as these.
            local fitting = length > 0 and math.floor((bytes - length) * asked / length) or step * 2
            step = math.max(math.min(step * 2, fitting), 1)
        end
    end
end
