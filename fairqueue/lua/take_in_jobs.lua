-- Store a page of the jobs and dead letters of a workspace that moves to this shard.
-- What is here already stays as it is, so this may be repeated.
-- ARGV now workspace items
-- FULL refused
-- RETURNS {those that are here, one in a line: kind queue :task priority id; how many}, or 0 where
-- the workspace is not expected
local _, name, items = unpack(ARGV)

local to = match(Moves.text(Moves.field('pause', name)), 'moves=(%d+)$')
if to ~= Shard.here() then return 0 end
local ws, kept = Moves.workspace(name), {}
for _, item in ipairs(Moves.read_items(items)) do
  if Moves.take(ws, item) then
    insert(kept, concat({ item.kind, item.queue, ':' .. item.task, item.priority, item.id }, ' '))
  end
end
Settle.workspace(ws)
return { concat(kept, '\n'), #kept }
