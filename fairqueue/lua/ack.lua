-- Finish leases without claiming.
-- ARGV now owner number lease_seconds finishes
-- RETURNS {1, lost}, {-1} too late
local _, owner, number, lease_seconds, finishes = unpack(ARGV)

local lost = Repeat.answered(owner, number)
if lost == nil then return { -1 } end
if not lost then
  lost = Ending.finish_all(finishes)
  Wake.all()
  Save.all()
  Repeat.answer(owner, number, lost, tonumber(lease_seconds))
end
return { 1, lost }
