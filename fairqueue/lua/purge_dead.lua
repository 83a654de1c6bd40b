-- Drop a dead letter for good.
-- ARGV now workspace id
-- ROUTE workspace
-- RETURNS 1; 0: there is none of this id
local _, name, id = unpack(ARGV)

local is_dropped = DeadLetters.take(name, id)
DeadLetters.list_workspace(name)
return is_dropped and 1 or 0
