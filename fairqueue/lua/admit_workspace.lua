-- All of a workspace is here: from now on its jobs start, unless an operator has paused it.
-- ARGV now workspace
-- RETURNS 1
local _, name = unpack(ARGV)

local field = Moves.field('pause', name)
call('HDEL', K.moved(), name)
if call('HEXISTS', K.limits(), 'forwards') == 1 then call('HSET', K.moved(), '+' .. name, 1) end
Moves.lift(name, field, Moves.text(field))
return 1
