-- A workspace has moved, or has got a parent elsewhere: only where it is now is kept here.
-- ARGV now workspace to moves looks
-- RETURNS 1; 0 where it has jobs, dead letters, schedules or requests; -1 where it is a parent, and
-- stays; -2 where the number of shards does not change
-- moves: 1 since the number of shards changes; looks: 1 to change nothing
local _, name, to, moves, looks = unpack(ARGV)
local ws = Moves.workspace(name)

local function has_jobs()
  for _, flow in ipairs(Flows.all(ws)) do
    if flow.lanes ~= '' then return true end
  end
  return Moves.has_some(name)
end

if moves == '1' then
  if not Moves.are_running() then return -2 end
  -- the caller of one that waits asks again, on the new shard
  local tickets = call('ZRANGEBYSCORE', K.requests_of_workspace(name), 0, '+inf')
  for _, ticket in ipairs(tickets) do Requests.drop(ticket) end
else
  if call('HEXISTS', K.moved(), '@' .. name) == 1 then return -1 end
  if has_jobs() then return 0 end
  if looks == '1' then return 1 end
  Moves.let_all_through()
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
