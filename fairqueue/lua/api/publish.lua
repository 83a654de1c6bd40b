-- Enqueue one job, or reject it whole.
-- ARGV now job payload
-- ROUTE workspace MERGE own
-- FULL refused
-- RETURNS 1 stored, 0 repeated, {-1} parent's lease lost,
-- {2, scope, limit, waiting, start_interval, idle, kept} rejected; the limit of what drains is -1,
-- kept: places of the scope that are kept for workspaces with fewer jobs there,
-- {3, id} that job holds the unique key, {4} stored in place of a dead job that held it,
-- {6} its workspace moves to another shard, or the caller knows other shards
-- job: how queue workspace task priority id
-- how: names[shards][,delay,exempt,unnamed,parent,group,expires,unique_for,key[;tick]]
-- tick: the publish is for this tick of a schedule, and is repeated (0) if the schedule expects
-- another one; see state/schedules.lua
-- exempt: 0, 1, or the fence of the job that this one retries
-- names: 1 where the caller has not named this task before, else 0
-- shards: how many the caller knows of, if there are several, and how often that has changed: 3.1
local _, job, payload = unpack(ARGV)
local is_admitted = ARGV[4] -- from publish_many.lua
local how, queue, name, task, priority, id =
  match(job, '^(%S+) (%S+) (%S+) (%S+) (%S+) (.+)$')
local shards, delay, exempt = how:sub(2), '0', '0'
local unnamed, parent, group, expires, unique_for, key, tick = '0', '', '', '', '', '', ''
local has_options = find(how, ',', 1, true)
if has_options then
  how, tick = match(how, '^([^;]*);?(.*)$')
  shards, delay, exempt, unnamed, parent, group, expires, unique_for, key = match(how,
    '^%d([%d.]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*)$')
end
if parent ~= '' and call('HEXISTS', K.leases(), parent) == 0 then return { -1 } end
if Shard.has_ended(id) then return 0 end
if Enqueue.is_elsewhere(name, shards) then return { 6 } end
local schedule = tick ~= '' and Schedules.expecting(name, tick)
if schedule == nil then return 0 end
if how:sub(1, 1) == '1' then Tasks.name(task) end

local capacity = Limits.any('capacity')
local looks = capacity and not is_admitted
if (looks or has_options) and Enqueue.is_alive(queue, id) then return 0 end
local key_field = key ~= '' and concat({ name, task, key }, ':')
local holder, was_dead
if key_field then holder, was_dead = Enqueue.key_holder(key_field) end
if holder then
  if schedule then Schedules.advance(schedule, 'skipped') end
  return { 3, holder }
end
local full = looks and not Enqueue.is_admitted(exempt, group)
  and Enqueue.rejection(name, queue, task)
if full then
  if schedule then Schedules.refused(schedule) end
  return full
end
expires = expires ~= '' and now + expires
local retried = #exempt > 1 and LeaseRecords.read(exempt)
local passed, until_then, passed_key = Enqueue.key_of_retried(retried)
key = key ~= '' and key or passed_key or ''
local times = (delay ~= '0' and '>' .. num(now + delay):sub(1, 14) or '')
  .. ((expires or key ~= '') and '/' or '') .. (expires and num(expires) or '')
  .. (key ~= '' and '=' .. key or '')
local is_new = Jobs.write_new(queue, id, Jobs.new(name, task, priority, payload, times))
if not is_new then return 0 end
if group ~= '' then Enqueue.admit(group, capacity) end
if schedule then Schedules.advance(schedule, 'published') end
if key_field then Enqueue.take_key(key_field, queue, id, unique_for)
elseif passed then call('HSET', K.unique(), passed, concat({ queue, id, until_then }, ' ')) end
if retried or exempt == '1' then Enqueue.hold_framework_id(queue, id, not retried) end
if unnamed == '1' then Shard.count_unnamed(task) end
Enqueue.enter(name, queue, task, priority, Jobs.element(task, id), delay, expires)
return was_dead and { 4 } or 1
