-- Takes each read-write lock for its owner, as a reader or as the writer, if no other holder prevents it, if the owner
-- already holds it, or if `from` holds it. `from` is the field of another owner that gives its hold to this owner.
--
-- KEYS: lock, token, held, writers, ...
-- ARGV: kind, owner, ttl in ms, fences, from, joins, starving, prefix, channel, ...
--       (`kind` is `read` or `write`; for `fences`, see claim.lua; `from` is empty if not needed;
--       `joins` is 1 or empty; `starving` is a key or empty)
--
-- `held` has the fence of each reader. `writers` has the waiting writers that have a place, with the time at which the
-- place expires: they keep new readers out, except starving readers. `prefix` begins the keys of the readers' holds.
-- For `starving` and offers, see claim.lua. An offer is a hold of the writer OFFERED.
--
-- Reply: for each lock; without a list around it if there is only one
--        > 0: granted, the last fence of the reserved block
--        < 0: busy, minus the milliseconds until the claim can be granted although no lock is released
--        or the error of this lock; the other locks are still handled
--
-- If the server refuses a command, the commands before it are undone.

-- Extends the hold of this owner, and never shortens it: see claim.lua. Returns its fence, or nil if the fence is unknown.
local function extend(lock, token, held, kind, owner, ttl, hold, left)
  if kind == 'write' then
    if left < tonumber(ttl) then call('pexpire', lock, ttl) end
    return tonumber(stored_fence(token) or '')
  end
  local longest = math.max(left, tonumber(ttl))
  call('pexpire', lock, longest)
  lengthen(hold, ttl)
  call('pexpire', held, math.max(call('pttl', held), longest))
  return own_fence(held, owner)
end

-- Adds the command that deletes the hash of a hold that ends with this claim. `replaced` is the field of the hold.
local function add_end(commands, lock, replaced, left)
  if left > 0 then commands[#commands + 1] = { 'pexpire', lock, left, undo = { 'pexpire', lock, left } } end
  commands[#commands + 1] = { 'del', lock, undo = { 'hset', lock, 'mode', 'write', replaced, 1 } }
end

-- The commands that take the lock as a reader. `mode` is the present mode of the lock. `replaced` is the field whose
-- hold ends, or nil.
local function reading(lock, token, held, owner, ttl, last, mode, left, replaced, prefix)
  local hold, is_shared = hold_key(prefix, owner, 1), mode == 'read'
  local longest = is_shared and math.max(left, tonumber(ttl)) or tonumber(ttl)
  -- The ttl of the hash can be below the holds of others: see `reads_all`.
  local longest_of_ours = is_shared and math.max(call('pttl', held), longest) or longest
  -- SET XX finds no key and the first HDEL no live field. They check the memory limit (see claim.lua) and the rights for
  -- the commands that may be needed to undo the others.
  local commands = {
    { 'set', hold, '', 'xx' },
    is_shared and { 'del', hold } or { 'del', hold, held },
    { 'hdel', lock, owner },
  }
  local function add(command) commands[#commands + 1] = command end
  if mode == 'write' then
    -- This command changes nothing. It checks the right that is needed to undo the end of the hold.
    add({ 'hset', lock, replaced, 1 })
    add_end(commands, lock, replaced, left)
  end
  add({ 'hset', lock, 'mode', 'read', owner, 1, undo = is_shared and { 'hdel', lock, owner } or { 'del', lock } })
  add({ 'pexpire', lock, text(longest), undo = is_shared and left > 0 and { 'pexpire', lock, left } })
  add({ 'set', hold, 1, 'px', ttl, undo = { 'del', hold } })
  add({ 'hset', held, owner, text(last), undo = { 'hdel', held, owner } })
  add({ 'pexpire', held, text(longest_of_ours) })
  add({ 'set', token, text(last) })
  if is_shared and replaced then
    add({ 'hdel', lock, replaced })
    add({ 'del', hold_key(prefix, replaced, 1) })
    add({ 'hdel', held, replaced })
  end
  return commands
end

-- The same for the writer.
local function writing(lock, token, writers, owner, ttl, last, left, replaced)
  -- The first command changes nothing. It checks the memory limit and the right: see claim.lua.
  local commands = { replaced and { 'hset', lock, replaced, 1 } or { 'set', lock, '', 'xx' } }
  local function add(command) commands[#commands + 1] = command end
  add({ 'zrem', writers, owner })
  if replaced then add_end(commands, lock, replaced, left) else add({ 'del', lock }) end
  add({ 'hset', lock, 'mode', 'write', writer(owner), 1, undo = { 'del', lock } })
  add({ 'pexpire', lock, ttl })
  add({ 'set', token, text(last) })
  return commands
end

-- Refuses the claim. Keeps a place for a writer, or a note that the client starves, if the claim asks for it.
local function refused(lock, held, writers, kind, owner, joins, starving, prefix, mode, left)
  if mode == 'read' and kind == 'read' then
    local alive, longest = some_readers(lock, held, prefix, left)
    if alive > 0 then left = longest else mode = nil end
  end
  if kind == 'write' and (joins == '1' or call('zscore', writers, owner)) then
    call('zremrangebyscore', writers, '-inf', text(NOW))
    call('zrem', writers, owner)
    write({
      { 'zadd', writers, text(NOW + PLACE_MS), owner, undo = { 'zrem', writers, owner } },
      { 'pexpire', writers, PLACE_MS },
    })
  end
  if mode then
    note_starving(starving)
    return busy(left)
  end
  local first = call('zrangebyscore', writers, '(' .. text(NOW), '+inf', 'withscores', 'limit', 0, 1)
  return busy(first[2] and first[2] - NOW or 1)
end

-- Gives a hold with this last fence new fences above a number, if it needs them (see claim.lua). Returns the last fence of
-- the hold.
local function raise(token, held, kind, owner, fence, fences, above)
  if not above or fence >= above + fences then return fence end
  local others = tonumber(stored_fence(token) or '') or fence
  -- The fences of the hold are not used yet, so the new block can overlap them.
  if others == fence then others = fence - fences end
  local last = math.max(others, above) + fences
  call('set', token, text(last))
  if kind == 'read' then call('hset', held, owner, text(last)) end
  return last
end

local function claim(k, a)
  local lock, token, held, writers = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local kind, owner, ttl, from = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 5]
  local fences, above = fences_of(ARGV[a + 4])
  local joins, starving, prefix, channel = ARGV[a + 6], ARGV[a + 7], ARGV[a + 8], ARGV[a + 9]
  local mode, left = mode_of(lock, held)
  local function holds(field)
    if not mode or call('hexists', lock, field) == 0 then return false end
    return string.sub(field, -6) == ':write' or ttl_of_hold(prefix, field) > 0
  end

  if holds(kind == 'write' and writer(owner) or owner) then
    local fence = extend(lock, token, held, kind, owner, ttl, hold_key(prefix, owner, 1), left)
    if fence then return raise(token, held, kind, owner, fence, fences, above) end
    fence = next_fence(token, fences, above)
    if kind == 'read' then
      write({ { 'hset', held, owner, text(fence), undo = { 'hdel', held, owner } }, { 'pexpire', held, ttl } })
    end
    call('set', token, text(fence))
    return fence
  end

  local is_passed = from ~= '' and holds(from)
  local replaced = is_passed and from or nil
  if not is_passed and starving ~= '' and holds(writer(OFFERED)) then replaced = writer(OFFERED) end
  if kind == 'write' and mode == 'read' then
    local alive, longest = some_readers(lock, held, prefix, left)
    if alive > 0 then left = longest else mode, left = nil, -2 end
  end
  local is_free = not mode or mode == 'read' and kind == 'read' or mode == 'write' and replaced
  if is_free and kind == 'read' and not is_passed and starving == '' then
    is_free = call('zcount', writers, '(' .. text(NOW), '+inf') == 0
  end
  if not is_free then return refused(lock, held, writers, kind, owner, joins, starving, prefix, mode, left) end

  local last = next_fence(token, fences, above)
  if kind == 'read' then
    write(reading(lock, token, held, owner, ttl, last, mode, left, replaced, prefix))
  else
    write(writing(lock, token, writers, owner, ttl, last, left, replaced))
  end
  -- A downgrade: other readers can get the lock now.
  if is_passed and mode == 'write' and kind == 'read' then publish(channel, '1') end
  -- If other clients starve for this lock, their next claims write the note again.
  if not is_passed then take_note(starving) end
  return last
end

return each(4, 9, claim)
