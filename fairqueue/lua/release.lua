-- Give a leased job back: to the head of its lane, or scheduled after a delay.
-- ARGV now owner number lease_seconds fence delay counted seconds
-- RETURNS 1 done, 0 lost, -1 too late
local _, owner, number, lease_seconds, fence, delay, counted, seconds = unpack(ARGV)

return Repeat.once(owner, number, tonumber(lease_seconds), function()
  local due = tonumber(delay) > 0 and now + delay or nil
  return Return.release(fence, due, counted == '1', tonumber(seconds))
end)
