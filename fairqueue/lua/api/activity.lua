-- A page of what happened to jobs: minutes or hours, back from this one.
-- ARGV now seconds back count
-- ROUTE all MERGE concat
-- RETURNS for each window its number, and its rows as add_activity takes them
-- WRITES nothing
local _, seconds, back, count = unpack(ARGV)

local found, last = {}, Activity.window(tonumber(seconds))
for window = last - back, min(last, last - back + count - 1) do
  insert(found, { int(window), Activity.rows(seconds, window) })
end
return found
