-- Give a leased job back: to the head of its lane, or scheduled; or move it to the dead letters.
-- ARGV now owner number lease_seconds fence delay counted seconds max_deliveries declined refused
-- RETURNS 1 done, 0 lost, -1 too late
-- refused: it has no permit to start, and neither has its task here for so long; '': it had
local _, owner, number, lease_seconds, fence, delay, counted, seconds, max_deliveries,
  declined, refused = unpack(ARGV)
seconds, max_deliveries = tonumber(seconds), tonumber(max_deliveries)

return Idempotency.once(owner, number, tonumber(lease_seconds), fence, function(l)
  local due = tonumber(delay) > 0 and now + delay or nil
  if refused ~= '' then Leases.refuse(l, tonumber(refused)) end
  Leases.release(l, due, counted == '1', seconds, max_deliveries, declined == '1')
end)
