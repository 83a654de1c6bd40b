-- Remove items of a workspace that moves, which the other shard has taken in.
-- ARGV now workspace items
-- RETURNS 1, or 0 where it does not move
local _, name, items = unpack(ARGV)

if not find(call('HGET', K.moved(), name) or '', '^>') then return 0 end
local ws = Moves.workspace(name)

local LETTERS = { dead = name, cancelled = '!' .. name, steps = '!!' .. name }

local function drop_job(queue, id)
  local record = Jobs.read(queue, id)
  local of, task, priority = Jobs.identity_of(record or '')
  local element = task and Jobs.element(task, id)
  if of ~= name or not Removal.pick(ws, queue, priority, element) then return end
  Jobs.remove(queue, id)
  Timers.drop_expiry(ws, queue, priority, element)
end

for kind, queue, id in gmatch(items, '(%S+) (%S+) (%S+)\n') do
  local letters = LETTERS[kind]
  if letters then
    DeadLetters.take(letters, id)
    DeadLetters.list_workspace(letters)
  elseif kind == 'schedule' then
    local r = Schedules.read(name, id)
    if r then Schedules.drop(r) end
  elseif kind == 'key' then
    call('HDEL', K.unique(), id)
  else
    drop_job(queue, id)
  end
end
Settle.workspace(ws)
return 1
