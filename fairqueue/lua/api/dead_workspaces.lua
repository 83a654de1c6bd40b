-- A page of the workspaces with letters that died at a time or later, and how many those are.
-- ARGV now since cursor count
-- ROUTE all MERGE concat
-- RETURNS {cursor, workspace, time of its oldest letter, letters since then, ...}
-- WRITES nothing
local _, since, cursor, count = unpack(ARGV)

local following_cursor, names = unpack(call('ZSCAN', K.dead_workspaces(), cursor, 'COUNT', count))
local found = { following_cursor }
for i = 1, #names, 2 do
  local n = find(names[i], '^!') and 0
    or call('ZCOUNT', K.dead_letters_by_age(names[i]), since, '+inf')
  if n > 0 then
    insert(found, names[i])
    insert(found, names[i + 1])
    insert(found, n)
  end
end
return found
