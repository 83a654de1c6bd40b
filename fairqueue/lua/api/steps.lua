-- The record of a task's finished steps, see state/steps.lua.
-- ARGV now workspace task_id
-- ROUTE workspace
-- RETURNS it; nothing: there is none
-- WRITES nothing
local _, name, task_id = unpack(ARGV)

return Steps.read(name, task_id)
