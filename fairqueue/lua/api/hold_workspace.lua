-- Let nothing of a workspace start, since it moves to another shard; without one it goes on here.
-- Once nothing of it runs, this shard refuses its publishes.
-- ARGV now workspace to
-- RETURNS how many of its jobs run; 0: it moves now; -1: the number of shards does not change
local _, name, to = unpack(ARGV)

if not Moves.are_running() then return -1 end
local running = call('SCARD', K.slots(name))
if to == '' then
  if call('HEXISTS', K.moved(), name) == 0 then Moves.lift(name) end
  return running
end
local field = Moves.field('pause', name)
local text = Moves.text(field)
if not find(text, 'moves=', 1, true) then Limits.put(field, Moves.held(text, to)) end
Settle.workspace(Moves.workspace(name))
if running == 0 then call('HSET', K.moved(), name, '>' .. to) end
return running
