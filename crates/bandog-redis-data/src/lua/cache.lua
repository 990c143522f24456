-- An entry of a cache.
--
-- KEYS[1] the generation of the part: 8 random bytes. Without it, all entries of the part are void
-- KEYS[2] the entry: '1', the generation, the time of the write in ms (8 bytes, little-endian), flags, and the value.
--         Flag 1: there is a value. Flag 2: the entry can be stale
-- KEYS[3] exists as long as an entry that can be stale is fresh
-- KEYS[4] the fill that runs: its id (16 bytes) and the generation
-- ARGV[1] the verb
local generation_key, entry_key, fresh_key, fill_key = unpack(KEYS)
local verb = ARGV[1]
local generation = redis.call('GET', generation_key)

-- The generation lives longer than what has it.
local function keep_generation(ms)
    if redis.call('PTTL', generation_key) < tonumber(ms) then redis.call('PEXPIRE', generation_key, ms) end
end

-- The generation, which is made if there is none.
local function own_generation(new, ms)
    if not generation then
        generation = new
        redis.call('SET', generation_key, generation, 'PX', ms)
    end
    keep_generation(ms)
end

-- Whether this fill runs.
local function runs(id)
    return generation and redis.call('GET', fill_key) == id .. generation
end

-- ARGV[at] the time for which the entry is fresh, ARGV[at + 1] the time for which it is stale (0: never), in ms,
-- ARGV[at + 2] the flags, ARGV[at + 3] the value
local function write(at)
    local fresh, stale = ARGV[at], tonumber(ARGV[at + 1])
    local now = struct.pack('<I8', math.floor(micros() / 1000))
    redis.call('SET', entry_key, '1' .. generation .. now .. ARGV[at + 2] .. ARGV[at + 3], 'PX', fresh + stale)
    if stale > 0 then redis.call('SET', fresh_key, '', 'PX', fresh) end
    keep_generation(2 * (fresh + stale))
    redis.call('DEL', fill_key)
end

-- The entry or false, and the time for which it is fresh in ms.
local function read()
    local entry = redis.call('GET', entry_key)
    if not entry or entry:sub(2, 9) ~= generation then return false, 0 end
    return entry, math.max(redis.call('PTTL', entry:byte(18) >= 50 and fresh_key or entry_key), 0)
end

-- Reply: the entry or false, the time for which it is fresh in ms
if verb == 'look' then return {read()} end

-- ARGV[2] the id, ARGV[3] the lease in ms, ARGV[4] a new generation, ARGV[5] '1' if the fill begins in any case, '0' if the
-- entry must not be fresh, or the time of the write, in ms, of an entry that counts as not fresh
-- Reply: the entry or false, whether it is fresh (1 or 0), 'fresh', 'granted' or 'runs', the remaining time in ms, the id of
-- the fill that runs
if verb == 'begin' then
    local entry, left = read()
    local always = ARGV[5] == '1'
    local unusable = entry and string.format('%.0f', struct.unpack('<I8', entry:sub(10, 17))) == ARGV[5]
    if left > 0 and not always and not unusable then return {entry, 1, 'fresh', left, ''} end
    local fill = not always and redis.call('GET', fill_key)
    if fill and fill:sub(17) == generation and fill:sub(1, 16) ~= ARGV[2] then
        return {entry, 0, 'runs', redis.call('PTTL', fill_key), fill:sub(1, 16)}
    end
    own_generation(ARGV[4], 2 * ARGV[3])
    redis.call('SET', fill_key, ARGV[2] .. generation, 'PX', ARGV[3])
    return {entry, left > 0 and 1 or 0, 'granted', 0, ''}
end

-- ARGV[2] the id, ARGV[3] the lease in ms. Reply: 1 or 0
if verb == 'extend' then
    if not runs(ARGV[2]) then return 0 end
    redis.call('PEXPIRE', fill_key, ARGV[3])
    keep_generation(2 * ARGV[3])
    return 1
end

-- ARGV[2] the id. Reply: 1 or 0
if verb == 'end' then return runs(ARGV[2]) and redis.call('DEL', fill_key) or 0 end

-- ARGV[2] the id, ARGV[3..6] the entry. Reply: 1 or 0
if verb == 'fill' then
    if not runs(ARGV[2]) then return 0 end
    write(3)
    return 1
end

-- put: ARGV[2] a new generation, ARGV[3..6] the entry
own_generation(ARGV[2], 2 * (ARGV[3] + ARGV[4]))
write(3)
return 1
