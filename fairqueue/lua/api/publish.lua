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
-- how: again[shards][,delay,exempt,unnamed,parent,group,expires,unique_for,key[;tick]]
-- tick: the publish is for this tick of a schedule, and is repeated (0) if the schedule expects
-- another one; see state/schedules.lua
-- exempt: 0, 1, or the fence of the job that this one retries
-- again: 0 where the caller has just made the id, and sends this for the first time, else 1; 2 more
-- where the caller has not named this task before
-- shards: how many the caller knows of, if there are several, and how often that has changed: 3.1
local _, job, payload = unpack(ARGV)
local is_admitted, known, is_read = ARGV[4], ARGV[5], ARGV[6] -- from publish_many.lua
local how, queue, name, task, priority, id =
  match(job, '^(%S+) (%S+) (%S+) (%S+) (%S+) (.+)$')
local element, shards, delay, exempt = Jobs.element(task, id), how:sub(2), '0', '0'
local unnamed, parent, group, expires, unique_for, key, tick = '0', '', '', '', '', '', ''
local has_options = find(how, ',', 1, true)
if has_options then
  how, tick = match(how, '^([^;]*);?(.*)$')
  shards, delay, exempt, unnamed, parent, group, expires, unique_for, key = match(how,
    '^%d([%d.]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*)$')
end
if parent ~= '' and call('HEXISTS', K.leases(), parent) == 0 then return { -1 } end

-- The short way: a job behind others of its lane changes nothing about where its workspace stands.
-- `#plain` is what callers say of the shards, then ! where workspaces have capacities, and / where
-- tasks have limits; it is not there where anything else may reject a job.
local plain, is_stored = known or call('HGET', K.tasks(), '#plain'), nil
local of, capped, has_lanes = plain, '', ''
if plain and plain ~= shards then of, capped, has_lanes = match(plain, '^([%d.]*)(!?)(/?)$') end
local is_simple = not has_options
  or delay == '0' and #exempt == 1 and group .. expires .. key .. tick == ''
    and (exempt == '0' or not find(id, '~', 1, true)) -- its framework's id is to be held
local may_go, lane_key = of == shards and is_simple and find(how, '^[01]'), queue
local is_capped = capped ~= '' and exempt == '0' and not is_admitted
if may_go and has_lanes ~= '' then lane_key = Limits.lane_key(queue, task) end
local raw
if may_go and (is_capped or not known) then
  raw = call('HGET', K.workspaces(), name)
  may_go = raw and (not is_capped
    or not is_read and Enqueue.has_own_room(name, raw, lane_key, priority))
end
if may_go and match(how, '^1') then -- to know which ids have ended takes the shard's time
  local beat, last = Shard.last_times()
  local at = tonumber(now_text)
  may_go = last and at >= beat
  local window = may_go and max(Shard.window(0, at), last)
  if window and Shard.has_ended(id, window) then return 0 end
end
if may_go then
  is_stored = Jobs.add(queue, id, Jobs.new(name, task, priority, payload, ''))
  if not is_stored then return 0 end
  local done, length = pcall(call, 'RPUSHX', K.lane(name, lane_key, priority), element)
  if done and length > 0 then
    if unnamed == '1' then Shard.count(K.without_workspace(), task) end
    return 1
  end
  if not done and pcall(Jobs.remove, queue, id) then error(length, 0) end
end
-- LATER
if is_stored then insert(S.added_jobs, { queue, id }) end
if not is_stored and find(how, '^[13]') and Shard.has_ended(id) then return 0 end

local capacity, spread = Limits.any('capacity'), Limits.any('spread')
local may_move = Limits.any('moves') or Limits.any('forwards')
local is_known = shards == spread or shards == Limits.any('moves') or shards == ''
if spread and not is_known or may_move and Shard.has_moved(name) then return { 6 } end
local schedule = tick ~= '' and Schedules.expecting(name, tick)
if schedule == nil then return 0 end
-- LATER
if find(how, '^[23]') then Tasks.name(task) end
local looks = capacity and not (is_stored or is_admitted)
if (looks or has_options) and not is_stored and Enqueue.is_alive(queue, id) then return 0 end
local key_field = key ~= '' and concat({ name, task, key }, ':')
local holder, was_dead
if key_field then holder, was_dead = Enqueue.key_holder(key_field) end
if holder then
  if schedule then Schedules.advance(schedule, 'skipped') end
  return { 3, holder }
end
local ws = Records.workspace(name, raw)
local full = looks and not Enqueue.is_admitted(exempt, group)
  and Enqueue.rejection(ws, queue, task)
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
is_stored = is_stored
  or Jobs.write_new(queue, id, Jobs.new(name, task, priority, payload, times))
if not is_stored then return 0 end
if group ~= '' then Enqueue.admit(group, capacity) end
if schedule then Schedules.advance(schedule, 'published') end
if key_field then Enqueue.take_key(key_field, queue, id, unique_for)
elseif passed then call('HSET', K.unique(), passed, concat({ queue, id, until_then }, ' ')) end
if retried or exempt == '1' then Enqueue.hold_framework_id(queue, id, not retried) end
if unnamed == '1' then Shard.count(K.without_workspace(), task) end
Enqueue.enter(ws, queue, Lanes.key_of(queue, task), priority, element, delay, expires)
if of ~= shards and not may_move then Enqueue.mark_plain(shards) end
return was_dead and { 4 } or 1
