-- Give a leased job back: to the head of its lane, or scheduled; or move it to the dead letters.
-- ARGV now owner number lease_seconds fence delay counted seconds max_deliveries declined
-- RETURNS 1 done, 0 lost, -1 too late
local _, owner, number, lease_seconds, fence, delay, counted, seconds, max_deliveries,
  declined = unpack(ARGV)
seconds, max_deliveries = tonumber(seconds), tonumber(max_deliveries)

return Idempotency.once(owner, number, tonumber(lease_seconds), fence, function(l)
  local due = tonumber(delay) > 0 and now + delay or nil
  Leases.release(l, due, counted == '1', seconds, max_deliveries, declined == '1')
end)
