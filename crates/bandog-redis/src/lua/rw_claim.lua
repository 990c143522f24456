-- Takes each read-write lock for its owner, as a reader or as the writer, if no other holder prevents it, if the owner
-- already holds it, or if `from` holds it. `from` is the field of another owner that gives its hold to this owner.
--
-- KEYS: lock, token, held, writers, ...
-- ARGV: kind, owner, ttl in ms, fences, from, joins, starving, prefix, channel, ...
--       (`kind` is `read` or `write`; `from` is empty if not needed;
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

-- Extends the hold of this owner. Returns its fence, or nil if the fence is unknown.
local function extend(lock, token, held, kind, owner, ttl, hold, left)
  if kind == 'write' then
    call('pexpire', lock, ttl)
    return tonumber(stored_fence(token) or '')
  end
  local longest = math.max(left, tonumber(ttl))
  call('pexpire', lock, longest)
  call('pexpire', hold, ttl)
  call('pexpire', held, longest)
  return own_fence(held, owner)
end

-- The commands that take the lock as a reader, and the commands that undo them. `mode` is the present mode of the lock.
-- `replaced` is the field whose hold ends, or nil.
local function reading(lock, token, held, owner, ttl, last, mode, left, replaced, prefix)
  local hold, is_shared = hold_key(prefix, owner, 1), mode == 'read'
  local longest = text(is_shared and math.max(left, tonumber(ttl)) or tonumber(ttl))
  -- SET XX finds no key and the first HDEL no live field. They check the memory limit and the rights for the commands
  -- that may be needed to undo the others.
  local commands = { { 'set', hold, '', 'xx' }, { 'del', hold }, { 'hdel', lock, owner } }
  local undo = { { 'hdel', lock, owner }, { 'del', hold }, { 'hdel', held, owner } }
  local function add(list, ...) list[#list + 1] = { ... } end
  if mode == 'write' then
    add(commands, 'del', lock)
    add(undo, 'hset', lock, 'mode', 'write', replaced, 1)
    add(undo, 'pexpire', lock, left)
  else
    add(undo, 'pexpire', lock, left)
    if not mode then add(undo, 'del', lock) end
  end
  add(commands, 'hset', lock, 'mode', 'read', owner, 1)
  add(commands, 'pexpire', lock, longest)
  add(commands, 'set', hold, 1, 'px', ttl)
  add(commands, 'hset', held, owner, text(last))
  add(commands, 'pexpire', held, longest)
  add(commands, 'set', token, text(last))
  if is_shared and replaced then
    add(commands, 'hdel', lock, replaced)
    add(commands, 'del', hold_key(prefix, replaced, 1))
    add(commands, 'hdel', held, replaced)
  end
  return commands, undo
end

-- The same for the writer.
local function writing(lock, token, writers, owner, ttl, last, left, replaced)
  -- The first command changes nothing. It checks the memory limit and the right: see claim.lua.
  local probe = replaced and { 'hset', lock, replaced, 1 } or { 'set', lock, '', 'xx' }
  local commands = {
    probe,
    { 'zrem', writers, owner },
    { 'del', lock },
    { 'hset', lock, 'mode', 'write', writer(owner), 1 },
    { 'pexpire', lock, ttl },
    { 'set', token, text(last) },
  }
  local undo = { { 'del', lock } }
  if replaced then undo = { { 'del', lock }, { 'hset', lock, 'mode', 'write', replaced, 1 }, { 'pexpire', lock, left } } end
  return commands, undo
end

-- Refuses the claim. Keeps a place for a writer, or a note that the client starves, if the claim asks for it.
local function refused(lock, held, writers, kind, owner, joins, starving, prefix, mode, left)
  if mode == 'read' then
    local alive, longest = live_readers(lock, held, prefix)
    if alive > 0 then left = longest else mode = nil end
  end
  if kind == 'write' and (joins == '1' or call('zscore', writers, owner)) then
    call('zremrangebyscore', writers, '-inf', text(NOW))
    call('zrem', writers, owner)
    write({ { 'zadd', writers, text(NOW + PLACE_MS), owner }, { 'pexpire', writers, PLACE_MS } }, { { 'zrem', writers, owner } })
  end
  if mode then
    note_starving(starving)
    return busy(left)
  end
  local first = call('zrangebyscore', writers, '(' .. text(NOW), '+inf', 'withscores', 'limit', 0, 1)
  return busy(first[2] and first[2] - NOW or 1)
end

local function claim(k, a)
  local lock, token, held, writers = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  local kind, owner, ttl, fences, from = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5]
  local joins, starving, prefix, channel = ARGV[a + 6], ARGV[a + 7], ARGV[a + 8], ARGV[a + 9]
  local mode, left = mode_of(lock)
  local function holds(field)
    if not mode or call('hexists', lock, field) == 0 then return false end
    return string.sub(field, -6) == ':write' or call('pttl', hold_key(prefix, field, 1)) > 0
  end

  if holds(kind == 'write' and writer(owner) or owner) then
    local fence = extend(lock, token, held, kind, owner, ttl, hold_key(prefix, owner, 1), left)
    if fence then return fence end
    fence = next_fence(token, fences)
    if kind == 'read' then
      write({ { 'hset', held, owner, text(fence) }, { 'pexpire', held, ttl } }, { { 'del', held } })
    end
    write({ { 'set', token, text(fence) } }, {})
    return fence
  end

  local is_passed = from ~= '' and holds(from)
  local replaced = is_passed and from or nil
  if not is_passed and starving ~= '' and holds(writer(OFFERED)) then replaced = writer(OFFERED) end
  if kind == 'write' and mode == 'read' and live_readers(lock, held, prefix) == 0 then mode, left = nil, -2 end
  local is_free = not mode or mode == 'read' and kind == 'read' or mode == 'write' and replaced
  if is_free and kind == 'read' and not is_passed and starving == '' then
    is_free = call('zcount', writers, '(' .. text(NOW), '+inf') == 0
  end
  if not is_free then return refused(lock, held, writers, kind, owner, joins, starving, prefix, mode, left) end

  local last = next_fence(token, fences)
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
