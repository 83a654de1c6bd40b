-- Drop dead letters for good: one, or a page of the oldest.
-- ARGV now workspace id until_then count
-- ROUTE workspace
-- RETURNS {until_then, dropped}
local _, name, id, until_then, count = unpack(ARGV)
if until_then == '' then until_then = now_text end

local dropped = 0
for _, one in ipairs(DeadLetters.chosen(name, id, until_then, 0, count)) do
  if DeadLetters.take(name, one) then dropped = dropped + 1 end
end
DeadLetters.list_workspace(name)
return { until_then, dropped }
