-- Finish leases without claiming.
-- ARGV now owner number lease_seconds max_deliveries finishes
-- RETURNS {1, lost}, {-1} too late
local _, owner, number, lease_seconds, max_deliveries, finishes = unpack(ARGV)

local lost = Idempotency.answered(owner, number)
if lost == nil then return { -1 } end
if not lost then
  lost = Leases.finish_all(finishes, owner, tonumber(max_deliveries))
  Idempotency.keep(owner, number, lost, tonumber(lease_seconds))
end
return { 1, lost }
