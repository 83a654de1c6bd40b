-- Finish leases without claiming.
-- USES state nodes limits wake fair lanes order means timer settle lease admit ending repeat save
-- KEYS meta
-- ARGV now owner number lease_seconds finishes
-- RETURNS {1, lost}, {-1} too late
local _, owner, number, lease_seconds, finishes = unpack(ARGV)

local lost = answered(owner, number)
if lost == nil then return { -1 } end
if not lost then
  lost = finish_all(finishes)
  wake()
  save()
  answer(owner, number, lost, tonumber(lease_seconds))
end
return { 1, lost }
