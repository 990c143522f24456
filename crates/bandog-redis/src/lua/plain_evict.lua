-- Returns the permits of all claims of ours, and notifies the subscribers. The permits that clients of other libraries
-- have stay taken, because the store does not record who has them.
--
-- KEYS: lock
-- ARGV: plain, leases, waiting, order, channel
-- Reply: 0: the key is not a semaphore of this layout
--        nil: no client has a permit; the permits of claims that have expired are returned, too
--        {receivers, row}: `receivers` is the number of notified subscribers, or -2 if the user has no right to
--        publish. `row` is the result of `inspect_plain` before the change.
--        or the error, for example because only clients of other libraries have permits

local function evict()
  local lock, plain, leases = KEYS[1], ARGV[1], ARGV[2]
  local row = inspect_plain(lock, plain, leases, ARGV[3], ARGV[4])
  if row == nil then return 0 end
  local owners, fields = {}, call('hgetall', plain)
  for i = 1, #fields, 2 do
    if fields[i] ~= 'limit' then owners[#owners + 1] = fields[i] end
  end
  if row and #owners == 0 then
    refuse('INUSE only clients of other libraries have permits, and the store does not record which; if these clients '
      .. 'have ended, add the permits with addPermits of Redisson')
  end
  if #owners == 0 then return false end
  return_permits(lock, plain, leases, owners)
  local receivers = publish(ARGV[5], call('get', lock))
  return row and { receivers, row }
end

return each(1, 5, evict)
