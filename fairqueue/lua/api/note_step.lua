-- Keep what a step has returned, unless that was kept before.
-- ARGV now fence workspace task_id early step line
-- ROUTE workspace
-- FULL refused
-- RETURNS the line that is kept; 0: the lease is lost, or a later run has written
-- early: 1 if the job was acked early, and needs no lease
local _, fence, name, task_id, early, step, line = unpack(ARGV)

local l, lines = Steps.open(fence, name, task_id, early)
if not l then return 0 end
local kept = Steps.line_of(lines, step)
if kept then return kept end
Steps.write(l, name, task_id, now, lines .. line .. '\n')
return line
