-- Remove items of a workspace that moves, which the other shard has taken in.
-- ARGV now workspace items
-- RETURNS 1, or 0 where it does not move
local _, name, items = unpack(ARGV)

if not find(call('HGET', K.moved(), name) or '', '^>') then return 0 end
local ws = Moves.workspace(name)

local function drop_job(queue, id)
  local record = Jobs.read(queue, id)
  local of, task, priority = Jobs.identity_of(record or '')
  local element = task and Jobs.element(task, id)
  if of ~= name or not Removal.pick(ws, queue, priority, element) then return end
  Jobs.remove(queue, id)
  Timers.drop_expiry(ws, queue, priority, element)
end

for kind, of, id in gmatch(items, '(%S+) (%S+) (%S+)\n') do
  if kind == 'dead_letters' then
    DeadLetters.take(of, id)
    DeadLetters.list_workspace(of)
  elseif kind == 'schedules' then
    local r = Schedules.read(of, id)
    if r then Schedules.drop(r) end
  elseif kind == 'unique' then
    call('HDEL', K.unique(), id)
  elseif kind ~= 'rest' then
    drop_job(of, id)
  end
end
Settle.workspace(ws)
return 1
