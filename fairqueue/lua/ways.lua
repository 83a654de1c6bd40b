-- A page of the workspaces that have left this shard, and where they have gone.
-- ARGV now cursor count
-- RETURNS {cursor, workspace, shard, ...}
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, found = unpack(call('HSCAN', K.moved(), cursor, 'COUNT', count))
local reply = { following_cursor }
for i = 1, #found, 2 do
  if match(found[i], '^[^+@]') and not find(found[i + 1], '^>') then
    insert(reply, found[i])
    insert(reply, found[i + 1])
  end
end
return reply
