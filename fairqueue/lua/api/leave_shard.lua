-- A workspace has moved, or has got a parent elsewhere: only where it is now is kept here.
-- ARGV now workspace to replaces
-- RETURNS 1; 0 where it is a parent, or something of it would have to move; -1 where the number of
-- shards does not change, or does, for a parent
-- replaces: moves, since the number of shards changes; else the source whose limits the caller
-- stores there next, or none, and nothing else of it may be here
local _, name, to, replaces = unpack(ARGV)
local ws, moves = Moves.workspace(name), replaces == 'moves'

if moves ~= Moves.are_running() then return -1 end
if moves then
  -- the caller of one that waits asks again, on the new shard
  local tickets = call('ZRANGEBYSCORE', K.requests_of_workspace(name), 0, '+inf')
  for _, ticket in ipairs(tickets) do Requests.drop(ticket) end
else
  Shard.refuse_moved(name)
  local is_parent = call('HEXISTS', K.moved(), '@' .. name) == 1
  if is_parent or Moves.is_known(name, replaces) then return 0 end
  Limits.forget()
  Shard.load().spread = ' spread ' -- so that requests ask, too
  call('HSET', K.limits(), 'forwards', 1)
end

for _, source in ipairs(Moves.SOURCES) do Limits.put(Moves.field(source, name), '') end
call('ZREM', K.asked(), name)
call('UNLINK', K.dead_letters('!!' .. name), K.dead_letters_by_age('!!' .. name))
call('ZREM', K.dead_workspaces(), '!!' .. name)
call('HDEL', K.counts(), name)
for _, task in ipairs(call('HKEYS', K.indexed_tasks())) do
  call('ZREM', K.task_rates(), name .. ':' .. task)
end
call('HSET', K.moved(), name, to)
call('HDEL', K.moved(), '+' .. name)
ws.limits, ws.tat = nil, '0'
Settle.workspace(ws)
return 1
