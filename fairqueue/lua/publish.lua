-- Enqueue one job, or refuse it whole.
-- ARGV now queue id workspace task priority delay exempt group parent payload
-- RETURNS {1} stored, {0} repeated, {-1} parent's lease lost, {2, scope, limit, waiting, pace, idle} refused
local _, queue, id, name, task_name, priority, delay, exempt, group, parent, payload = unpack(ARGV)

if parent ~= '' and call('HEXISTS', K.leases(), parent) == 0 then return { -1 } end
if call('HEXISTS', K.jobs(queue), id) == 1 or Ended.has(id) then return { 0 } end

local task = Tasks.number(task_name)
local function keep()
  local header = concat({ name, task, priority, 0, 0, now_text:sub(1, 14) }, ' ')
  call('HSET', K.jobs(queue), id, header .. '\n' .. payload)
end

-- The short way: behind others of its lane, and with no capacity set anywhere, a job changes
-- nothing about where its workspace stands.
local raw = call('HGET', K.workspaces(), name)
if raw and Workspaces.lanes_in(raw, queue) == priority and delay == '0' and group == ''
  and call('HEXISTS', K.limits(), 'capacity') == 0 then
  keep()
  call('RPUSH', K.lane(name, queue, priority), task .. ':' .. id)
  return { 1 }
end
-- LATER
local ws = Workspaces.of(name)
local full = not Admit.is_admitted(exempt, group) and Admit.refusal(ws, queue)
if full then return full end
if group ~= '' then Admit.admit(group) end
keep()

Nodes.of(queue) -- it is known from now on, also while its only job is held back
local flow, element = Workspaces.flow_of(ws, queue), task .. ':' .. id
if delay == '0' then
  Lanes.push(ws, flow, priority, element)
else
  Timer.schedule(ws, flow, priority, element, now + delay)
end
Settle.workspace(ws)
Wake.all()
Save.all()
return { 1 }
