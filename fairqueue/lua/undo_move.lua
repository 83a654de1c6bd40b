-- A workspace whose jobs run for too long does not move now; what was set before holds again.
-- ARGV now workspace
-- RETURNS 1; 0: it moves already
local _, name = unpack(ARGV)

if call('HEXISTS', K.moved(), name) == 1 then return 0 end
local field = Moves.field('pause', name)
Moves.lift(name, field, Moves.text(field))
return 1
