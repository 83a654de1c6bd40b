-- Enqueue one job, or refuse it whole.
-- ARGV now queue id workspace task priority delay exempt group parent more payload
-- RETURNS {1} stored, {0} repeated, {-1} parent's lease lost, {2, scope, limit, waiting, pace, idle} refused,
-- {3, id} that job holds the unique key, {4} stored in place of a dead job that held it
local _, queue, id, name, task_name, priority, delay, exempt, group, parent, more, payload = unpack(ARGV)

if parent ~= '' and call('HEXISTS', K.leases(), parent) == 0 then return { -1 } end
if call('HEXISTS', K.jobs(queue), id) == 1 or Ended.has(id) then return { 0 } end

local task = Tasks.number(task_name)
local function keep(expires)
  call('HSET', K.jobs(queue), id, Enter.record(name, task, priority, payload, expires))
end

-- The short way: behind others of its lane, and with no capacity set anywhere, a job changes
-- nothing about where its workspace stands.
local raw, place = call('HGET', K.workspaces(), name), queue
local capacity, tasks = unpack(call('HMGET', K.limits(), 'capacity', 'tasks'))
if tasks then
  local boot, live, held = unpack(call('HMGET', K.limits(), 'boot:task:' .. task, 'live:task:' .. task, 'pause:task:' .. task))
  if boot or live or held and find(held, 'paused') then place = queue .. '/' .. task end
end
if raw and Lanes.used_in(raw, place) == priority and delay == '0' and group == '' and more == '' and not capacity then
  keep()
  call('RPUSH', K.lane(name, place, priority), task .. ':' .. id)
  return { 1 }
end
-- LATER
local expires, unique_for, key = match(more, '^(%S+) (%S+) (%S*)$')
local place_of_key = key and key ~= '' and exempt ~= '1' and concat({ name, task, key }, ':')
local holder, was_dead
if place_of_key then holder, was_dead = Unique.holder(place_of_key) end
if holder then return { 3, holder } end
local ws = Workspaces.of(name)
local full = not Admit.is_admitted(exempt, group) and Admit.refusal(ws, queue, task)
if full then return full end
if group ~= '' then Admit.admit(group) end
expires = expires and expires ~= '-' and now + expires
keep(expires and '/' .. num(expires))
if place_of_key then Unique.take(place_of_key, queue, id, unique_for) end

if expires then Expiry.add(ws, queue, priority, task .. ':' .. id, expires) end
Enter.flow(ws, queue, place, priority, task .. ':' .. id, delay)
Wake.all()
Save.all()
return { was_dead and 4 or 1 }
