-- Remove jobs and dead letters of a workspace that moves, which the other shard has taken in.
-- ARGV now workspace items
-- RETURNS 1, or 0 where it does not move
local _, name, items = unpack(ARGV)

if not find(call('HGET', K.moved(), name) or '', '^>') then return 0 end
local ws = Moves.workspace(name)
for kind, queue, task, priority, id in gmatch(items, '(%S+) (%S+) :(%S+) (%S+) (%S+)') do
  if kind == 'dead' then
    Moves.drop_letter(name, queue, id)
  elseif kind == 'cancelled' then
    Moves.drop_letter('!' .. name, queue, id)
  else
    Moves.drop_job(ws, queue, task, priority, id)
  end
end
Settle.workspace(ws)
return 1
