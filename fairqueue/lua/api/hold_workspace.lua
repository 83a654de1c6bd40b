-- Let nothing of a workspace start, since it moves to another shard; without one it goes on here.
-- Once nothing of it runs, this shard refuses its publishes. Where it is to come here, it is
-- expected from now on.
-- ARGV now workspace to
-- RETURNS how many of its jobs run; 0: it moves now; -1: another process has moved it, or the
-- number of shards does not change
local _, name, to = unpack(ARGV)

local comes = to == Shard.here() and '<'
local held = comes or match(call('HGET', K.moved(), name) or '|', '^%D')
if not (held and Moves.are_running()) then return -1 end
local running = call('SCARD', K.slots(name))
if to ~= '' then Moves.hold(name, comes or running == 0 and '>' or held, to)
elseif held == '|' then call('HDEL', K.moved(), name) end
Settle.workspace(Moves.workspace(name))
return running
