-- Give a leased job back: to the head of its lane, or scheduled; or move it to the dead letters.
-- ARGV now owner number lease_seconds fence delay how seconds max_deliveries refused waits
-- RETURNS 1 done, 0 lost, -1 too late
-- refused: it has no permit to start, and neither has its task here for so long; '': it had
-- how: counted, declined, or released, which is neither
-- waits: the id of its task, if that waits for children, see state/steps.lua
local _, owner, number, lease_seconds, fence, delay, how, seconds, max_deliveries, refused,
  waits = unpack(ARGV)
seconds, max_deliveries = tonumber(seconds), tonumber(max_deliveries)

return Idempotency.once(owner, number, tonumber(lease_seconds), fence, function(l)
  local is_woken = waits ~= '' and Steps.suspend(l, waits)
  local due = not is_woken and tonumber(delay) > 0 and now + delay or nil
  if refused ~= '' then Leases.refuse(l, tonumber(refused)) end
  Leases.release(l, due, how == 'counted', seconds, max_deliveries, how == 'declined')
end)
