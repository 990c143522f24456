-- Reads who has permits of a semaphore in the layout of Redisson's RSemaphore.

-- {'plain', limit, false, holders, queue, held}, false if no client has a permit, or nil if the key is not such a
-- semaphore. `limit` is 0 if it is unknown. `holders` are pairs of an owner and the milliseconds until it expires. The
-- owner '' stands for all clients of other libraries; the number after it is the number of their permits. `held` are
-- pairs of an owner, and its fence and its number of permits.
local function inspect_plain(lock, plain, leases, waiting, order)
  local available, fields = try('get', lock), list('hgetall', plain)
  if type(available) ~= 'string' or not string.find(available, '^%-?%d+$') or #fields == 0 then return nil end
  local limit, taken, holders, held = 0, 0, {}, {}
  for i = 1, #fields, 2 do
    local owner, value = fields[i], fields[i + 1]
    if owner == 'limit' then
      limit = tonumber(value) or 0
    else
      taken = taken + (tonumber(string.match(value, '^%d+ (%d+)$')) or 0)
      local until_ms = tonumber(call('zscore', leases, owner) or 0)
      if until_ms == 0 then check_shown(leases) end
      if until_ms > NOW then
        for _, part in ipairs({ owner, until_ms - NOW }) do holders[#holders + 1] = part end
        for _, part in ipairs({ owner, value }) do held[#held + 1] = part end
      end
    end
  end
  local others = limit - tonumber(available) - taken
  if limit > 0 and others > 0 then
    for _, part in ipairs({ '', others }) do holders[#holders + 1] = part end
  end
  if #holders == 0 then return false end
  return { 'plain', limit, false, holders, waiting_owners(list('zrange', order, 0, -1), waiting), held }
end

