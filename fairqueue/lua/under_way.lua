-- A page of the workspaces that are paused because they move, here or to here.
-- ARGV now cursor count
-- RETURNS {cursor, workspace, ...}
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, fields =
  unpack(call('SSCAN', K.limits_with('pauses'), cursor, 'COUNT', count))
local reply = { following_cursor }
for _, field in ipairs(fields) do
  local name = match(field, '^pause:workspace:(.*)$')
  if name and find(Moves.text(field), 'moves=', 1, true) then insert(reply, name) end
end
return reply
