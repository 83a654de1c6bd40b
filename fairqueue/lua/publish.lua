-- Enqueue one job, or reject it whole.
-- ARGV now queue id workspace task priority delay exempt group parent more unnamed payload
-- RETURNS {1} stored, {0} repeated, {-1} parent's lease lost,
-- {2, scope, limit, waiting, start_interval, idle} rejected; the limit of what drains is -1,
-- {3, id} that job holds the unique key, {4} stored in place of a dead job that held it
local _, queue, id, name, task_name, priority, delay, exempt, group, parent, more,
  unnamed, payload = unpack(ARGV)

if parent ~= '' and call('HEXISTS', K.leases(), parent) == 0 then return { -1 } end
if Shard.has_ended(id) then return { 0 } end

local task = Shard.task_number(task_name)
local element = Jobs.element(task, id)

-- The short way: behind others of its lane, and with no capacity set anywhere, a job changes
-- nothing about where its workspace stands.
local raw, lane_key = call('HGET', K.workspaces(), name), queue
local capacity, tasks = unpack(call('HMGET', K.limits(), 'capacity', 'tasks'))
if tasks then
  local own = { 'configured:task:' .. task, 'live:task:' .. task, 'pause:task:' .. task }
  local configured, live, pause = unpack(call('HMGET', K.limits(), unpack(own)))
  if configured or live or pause and find(pause, 'paused') then lane_key = queue .. '/' .. task end
end
local is_plain = delay == '0' and group == '' and more == '' and not capacity
local lanes = is_plain and raw and Records.lanes_in(raw, lane_key)
if lanes and (lanes == priority or lanes == priority .. '+') then
  if not Jobs.add(queue, id, Jobs.new(name, task, priority, payload)) then return { 0 } end
  local done, said = pcall(call, 'RPUSH', K.lane(name, lane_key, priority), element)
  if not done then
    Jobs.remove(queue, id) -- or a repeated publish would be told that the job is there
    error(said, 0)
  end
  if unnamed == '1' then Enqueue.count_unnamed(task_name) end
  return { 1 }
end
if call('HEXISTS', K.jobs(queue), id) == 1 then return { 0 } end
-- LATER
local expires, unique_for, key = match(more, '^(%S+) (%S+) (%S*)$')
local key_field = key and key ~= '' and exempt ~= '1' and concat({ name, task, key }, ':')
local holder, was_dead
if key_field then holder, was_dead = Enqueue.key_holder(key_field) end
if holder then return { 3, holder } end
local ws = Records.workspace(name)
local full = capacity and not Enqueue.is_admitted(exempt, group)
  and Enqueue.rejection(ws, queue, task)
if full then return full end
if group ~= '' then Enqueue.admit(group, capacity) end
expires = expires and expires ~= '-' and now + expires
Jobs.write_new(queue, id, Jobs.new(name, task, priority, payload, expires and '/' .. num(expires)))
if key_field then Enqueue.take_key(key_field, queue, id, unique_for) end
if unnamed == '1' then Enqueue.count_unnamed(task_name) end

if expires then Timers.add_expiry(ws, queue, priority, element, expires) end
Enqueue.enter(ws, queue, lane_key, priority, element, delay)
return { was_dead and 4 or 1 }
