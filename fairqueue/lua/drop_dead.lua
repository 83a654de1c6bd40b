-- Drop dead letters for good: one, or a page of the oldest.
-- ARGV now workspace id until_then count
-- RETURNS {until_then, dropped}
local _, name, id, until_then, count = unpack(ARGV)
if until_then == '' then until_then = now_text end

local dropped = 0
for _, one in ipairs(Graves.chosen(name, id, until_then, 0, count)) do
  if Graves.take(name, one) then dropped = dropped + 1 end
end
Graves.mark(name)
return { until_then, dropped }
