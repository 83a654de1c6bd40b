-- A workspace whose jobs run for too long does not move now; what was set before holds again.
-- ARGV now workspace
-- RETURNS 1; 0: it moves already
local _, name = unpack(ARGV)

if call('HEXISTS', K.moved(), name) == 1 then return 0 end
local field = Moves.field('pause', name)
local text = Moves.text(field)
if find(text, 'moves=', 1, true) then Moves.lift(name, field, text) end
return 1
