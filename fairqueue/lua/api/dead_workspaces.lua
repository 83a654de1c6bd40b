-- A page of the workspaces that have dead letters, with the time of the oldest of each.
-- ARGV now cursor count
-- ROUTE all MERGE concat
-- RETURNS {cursor, workspace, time, ...}
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, names = unpack(call('ZSCAN', K.dead_workspaces(), cursor, 'COUNT', count))
local found = { following_cursor }
for i = 1, #names, 2 do
  if not find(names[i], '^!') then
    insert(found, names[i])
    insert(found, names[i + 1])
  end
end
return found
