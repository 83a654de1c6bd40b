-- Enqueue a job in place of the next message of another system's list in the same Redis.
-- ARGV now list message queue id workspace task priority delay kind
-- RETURNS 1 done, 0 another message is next, or none, -1 not while jobs are handed over to it
local _, list, message, queue, id, name, task_name, priority, delay, kind = unpack(ARGV)

if call('EXISTS', K.leaving()) == 1 then return -1 end
if call('LINDEX', list, -1) ~= message then return 0 end
call('RPOP', list)

local ws, task = Workspaces.of(name), Tasks.number(task_name)
call('HSET', K.jobs(queue), id, Enter.record(name, task, priority, message))
Enter.flow(ws, queue, Lanes.place_of(queue, task), priority, task .. ':' .. id, delay)
call('HINCRBY', K.taken(), kind, 1)
Wake.all()
Save.all()
return 1
