-- A child of this task has ended: its job goes to the head of its lane, if it waits for that.
-- ARGV now workspace task_id
-- ROUTE workspace
-- RETURNS 1; 0: there is no such job, or it runs
local _, name, task_id = unpack(ARGV)

Shard.refuse_moved(name)
return Waits.wake(name, task_id)
