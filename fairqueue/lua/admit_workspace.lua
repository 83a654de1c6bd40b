-- All of a workspace is here: from now on its jobs start, unless an operator has paused it.
-- ARGV now workspace
-- RETURNS 1
local _, name = unpack(ARGV)

local field = Moves.field('pause', name)
Moves.lift(name, field, Moves.text(field))
return 1
