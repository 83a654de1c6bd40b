-- A page of the jobs and dead letters of a workspace that moves, in their order.
-- ARGV now workspace count
-- RETURNS {items, how many}
-- WRITES nothing
local _, name, count = unpack(ARGV)

local page = Moves.page(Records.workspace(name), tonumber(count))
return { concat(page.items), page.n }
