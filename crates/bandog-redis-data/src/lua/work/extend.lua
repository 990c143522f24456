-- Extends leases of a work queue.
--
-- KEYS and ARGV[1]: see `rows`
-- ARGV[2] the lease
-- ARGV[3..] for each delivery the id, the fence, and the progress: '' for no change, or '=' and the text
-- Reply: for each delivery 0 if it is extended, 1 if it is extended and cancelled, 2 if the taker does not have it any more
-- A server whose memory is full refuses a script that begins with a write that needs memory.
redis.call('ZREM', taken, '')
local ids, answers = {}, {}
for at = 3, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end
load(ids)
for at, id in ipairs(ids) do
    local element, fence, progress = find(id), tonumber(ARGV[3 * at + 1]), ARGV[3 * at + 2]
    if not element or element.phase ~= 't' or element.fence ~= fence then
        answers[at] = 2
    else
        element.at = after(now, ARGV[2])
        if progress ~= '' then set_progress(element, progress ~= '=' and progress:sub(2) or nil) end
        update(element)
        answers[at] = has(element.flags, IS_CANCELLED) and 1 or 0
    end
end
flush()
return answers
