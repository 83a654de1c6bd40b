-- Enqueue one job, or refuse it whole.
-- KEYS meta
-- ARGV now queue id workspace task priority delay exempt group parent payload
-- RETURNS {1} stored, {0} repeated, {-1} parent's lease lost, {2, scope, limit, waiting, pace, idle} refused
local _, queue, id, name, task_name, priority, delay, exempt, group, parent, payload = unpack(ARGV)

if parent ~= '' and call('HEXISTS', K.leases(), parent) == 0 then return { -1 } end
local ws, task = Workspaces.of(name), Tasks.number(task_name)
local record = concat({ name, task, priority, 0, 0, format('%.3f', now) }, ' ') .. '\n' .. payload
if call('HSETNX', K.jobs(queue), id, record) == 0 then return { 0 } end

local function undo(reply)
  call('HDEL', K.jobs(queue), id)
  return reply
end

if Admit.has_ended(id) then return undo({ 0 }) end
local full = not Admit.is_admitted(exempt, group) and Admit.refusal(ws, queue)
if full then return undo(full) end
if group ~= '' then Admit.admit(group) end

Nodes.of(queue) -- it is known from now on, also while its only job is held back
local flow, element = Workspaces.flow_of(ws, queue), task .. ':' .. id
if tonumber(delay) > 0 then
  Timer.schedule(ws, flow, priority, element, now + delay)
  if now + delay < (tonumber(Meta.load().watched) or 0) then Wake.alert(queue) end
else
  Lanes.push(ws, flow, priority, element)
end
if not flow.serial or tonumber(delay) > 0 then Settle.workspace(ws) end
Wake.all()
Save.all()
return { 1 }
