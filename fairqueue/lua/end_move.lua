-- A workspace has moved: nothing of it is left here but where it has moved to.
-- ARGV now workspace to
-- RETURNS 1; 0: something of it is left that can move; -1: no workspace moves
local _, name, to = unpack(ARGV)

if not Moves.are_under_way() then return -1 end

local ws = Moves.workspace(name)
if Moves.page(ws, 1).n > 0 or call('EXISTS', K.slots_of_workspace(name)) == 1 then return 0 end
for _, source in ipairs({ 'live', 'provider', 'pause' }) do
  Limits.put(Moves.field(source, name), '')
end
call('ZREM', K.asked(), name)
call('HDEL', K.lost(), name)
call('HDEL', K.observed(), name)
for _, number in ipairs(call('HKEYS', K.indexed_tasks())) do
  call('ZREM', K.task_rates(), name .. ':' .. number)
end
for _, ticket in ipairs(call('ZRANGE', K.requests_of_workspace(name), 0, -1)) do
  Requests.drop(ticket) -- the caller of one that waits asks again, on the new shard
end
call('HSET', K.moved(), name, to)
call('HDEL', K.moved(), '+' .. name)
ws.limits, ws.tat = nil, '0'
Settle.workspace(ws)
return 1
