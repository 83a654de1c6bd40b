-- Keep what a step has returned, unless that was kept before; or drop all finished steps.
-- ARGV now fence workspace task_id early step line
-- ROUTE workspace
-- FULL refused
-- RETURNS the line that is kept; 0: the lease is lost, or a later run has written
-- early: 1 if the job was acked early, and needs no lease
-- step: empty where the task has ended well (line: ended), or its steps cannot be read (unread)
local _, fence, name, task_id, early, step, line = unpack(ARGV)

local l, lines = Steps.open(fence, name, task_id, early)
if not l then return 0 end
local kept = step ~= '' and Steps.line_of(lines, step)
if kept then return kept end
if line == 'unread' then  -- all steps run again
  Shard.set_aside('steps', name .. '/' .. task_id, DeadLetters.read('!!' .. name, task_id))
  Steps.drop(name, task_id)
elseif line ~= 'ended' then
  Steps.write(l, name, task_id, now, lines .. line .. '\n')
else
  DeadLetters.expire('!!' .. name)
  if lines ~= '' then Steps.write(l, name, task_id, now - DeadLetters.bounds('!!'), lines) end
end
return line
