-- Drop a dead letter, and the finished steps of its task, for good.
-- ARGV now workspace id
-- ROUTE workspace
-- RETURNS 1; 0: there is none of this id
local _, name, id = unpack(ARGV)

local is_dropped = DeadLetters.drop(name, id)
DeadLetters.list_workspace(name)
if is_dropped then Steps.drop(name, Steps.task_of(id)) end
return is_dropped and 1 or 0
