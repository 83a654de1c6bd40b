-- Give a leased job back: to the head of its lane, or scheduled after a delay; or bury it at last.
-- ARGV now owner number lease_seconds fence delay counted seconds max_deliveries turned_away
-- RETURNS 1 done, 0 lost, -1 too late
local _, owner, number, lease_seconds, fence, delay, counted, seconds, max_deliveries, turned_away = unpack(ARGV)
seconds, max_deliveries = tonumber(seconds), tonumber(max_deliveries)

return Repeat.once(owner, number, tonumber(lease_seconds), function()
  local due = tonumber(delay) > 0 and now + delay or nil
  return Return.release(fence, due, counted == '1', seconds, max_deliveries, turned_away == '1')
end)
