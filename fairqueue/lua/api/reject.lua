-- Move a leased job to the dead letters of its workspace.
-- ARGV now owner number lease_seconds fence reason details seconds
-- RETURNS 1 done, 0 lost, -1 too late
local _, owner, number, lease_seconds, fence, reason, details, seconds = unpack(ARGV)

return Idempotency.once(owner, number, tonumber(lease_seconds), fence, function(l)
  Leases.reject(l, reason, tonumber(seconds), details)
end)
