-- All of a workspace is here: from now on its jobs start, unless an operator has paused it.
-- ARGV now workspace
-- RETURNS 1
local _, name = unpack(ARGV)

local field = Moves.field('pause', name)
local text = Moves.text(field)
local stamp = call('HGET', K.stored_by(), field)
Limits.put(field, Moves.not_held(text))
if stamp and Moves.not_held(text) ~= '' then call('HSET', K.stored_by(), field, stamp) end
Settle.workspace(Moves.workspace(name))
return 1
