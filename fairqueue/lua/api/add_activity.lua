-- Add what a process has seen happen to jobs, to this minute or hour, given in seconds.
-- ARGV now seconds rows
-- ROUTE turns
-- FULL refused
-- RETURNS 1
-- rows: fields and their values of 65 bytes, see activity.lua
local _, seconds, rows = unpack(ARGV)

local names, values, at = {}, {}, 1
while at < #rows do
  local ends = find(rows, '\n', at, true)
  insert(names, rows:sub(at, ends - 1))
  insert(values, rows:sub(ends + 1, ends + 65))
  at = ends + 66
end
Activity.add(tonumber(seconds), names, values)
return 1
