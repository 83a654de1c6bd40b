-- Drop the finished steps of a task that has ended well, or that cannot be read.
-- ARGV now fence workspace task_id early unread
-- ROUTE workspace
-- RETURNS 1; 0: the lease is lost, or a later run has written
-- early: as in note_step; unread: 1 to set them aside
local _, fence, name, task_id, early, unread = unpack(ARGV)

local l, lines = Steps.open(fence, name, task_id, early)
if not l then return 0 end
if unread == '1' then Steps.put_aside(name, task_id) else Steps.ended(l, name, task_id, lines) end
return 1
