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
local is_admitted, known = ARGV[4], ARGV[5] -- from publish_many.lua
local how, queue, name, task, priority, id =
  match(job, '^(%S+) (%S+) (%S+) (%S+) (%S+) (.+)$')

-- The short way: a job behind others of its lane changes nothing about where its workspace stands.
-- `plain` is there where nothing of the shard may reject it or give its task a lane of its own; it
-- is what callers say of the shards, if there are several.
local plain, is_stored = known or call('HGET', K.tasks(), '#plain'), nil
local may_go = plain == how:sub(2) and find(how, '^[01]')
  and (known or call('HEXISTS', K.workspaces(), name) == 1)
if may_go and match(how, '^1') then -- to know which ids have ended takes the shard's time
  local beat, last = match(call('GET', K.meta()) or '',
    '^%d+ %d+ ([%d.]+) %S+ %S+ %S+ %S+ (%d+).* format=2$')
  local at = tonumber(now_text)
  may_go = beat and at >= tonumber(beat)
  local window = may_go and max(Shard.window(0, at), last)
  if window and Shard.has_ended(id, window) then return 0 end
end
if may_go then
  is_stored = Jobs.add(queue, id, Jobs.new(name, task, priority, payload, ''))
  if not is_stored then return 0 end
  local done, length = pcall(call, 'RPUSHX', K.lane(name, queue, priority), Jobs.element(task, id))
  if done and length > 0 then return 1 end
  if not done and pcall(Jobs.remove, queue, id) then error(length, 0) end
end
-- LATER
if is_stored then insert(S.added_jobs, { queue, id }) end
local tick = ''
if not find(how, ',', 1, true) then how = how .. ',0,0,0,,,,,'
else how, tick = match(how, '^([^;]*);?(.*)$') end
local shards, delay, exempt, unnamed, parent, group, expires, unique_for, key =
  match(how, '^%d([%d.]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),([^,]*)$')
if parent ~= '' and call('HEXISTS', K.leases(), parent) == 0 then return { -1 } end
if not is_stored and find(how, '^[13]') and Shard.has_ended(id) then return 0 end

local capacity, wide, tasks, spread, moves, forwards = unpack(call('HMGET', K.limits(), 'capacity',
  'wide_capacity', 'tasks', 'spread', 'moves', 'forwards'))
local may_move = moves or forwards
local is_known = shards == spread or shards == moves or shards == ''
if spread and not is_known or may_move and Shard.has_moved(name) then return { 6 } end
local schedule = tick ~= '' and Schedules.expecting(name, tick)
if schedule == nil then return 0 end
local lane_key = queue
if tasks then
  local own = { 'configured:task:' .. task, 'live:task:' .. task, 'pause:task:' .. task }
  local configured, live, pause = unpack(call('HMGET', K.limits(), unpack(own)))
  if configured or live or pause and find(pause, 'paused') then lane_key = queue .. '/' .. task end
end

-- The short way where a workspace's own capacity is the only one, or does not apply.
local is_plain = delay == '0' and #exempt == 1 and group .. expires .. key .. tick == ''
  and not find(id, '~', 1, true)
local raw = not is_stored and is_plain and find(how, '^[01]')
  and call('HGET', K.workspaces(), name)
local has_room = raw
if raw and capacity and exempt == '0' and not is_admitted then
  has_room = false
  if not wide and Records.only_lane_in(raw) == priority then
    local texts = call('HMGET', K.limits(), 'configured:default:', 'live:default:',
      'configured:workspace:' .. name, 'provider:workspace:' .. name, 'live:workspace:' .. name,
      'pause:workspace:' .. name, 'configured:observe:')
    local has_own = texts[3] or texts[4] or texts[5]
    local default = texts[1] or ''
    for i = 1, 7 do texts[i] = texts[i] or '' end
    local all = concat(texts, '|')
    local most = match(all, '.*capacity=([^ |]+)') -- the last one counts
    local is_exempt = not has_own and (match(default, 'exempt=(%S+)') or 'default') == name
    has_room = not (is_exempt or find(all, 'draining=') or find(all, 'observe='))
      and (not most or call('LLEN', K.lane(name, lane_key, priority)) < tonumber(most))
  end
end
local is_placed
if has_room then
  if not Jobs.add(queue, id, Jobs.new(name, task, priority, payload, '')) then return 0 end
  local lane, element = K.lane(name, lane_key, priority), Jobs.element(task, id)
  local done, length = pcall(call, 'RPUSHX', lane, element)
  is_placed = done and length > 0
  if is_placed and unnamed == '0' then return 1 end
  is_stored = is_placed or not pcall(call, 'HDEL', K.jobs(queue), id)
  if not (done or is_stored) then error(length, 0) end
end
-- LATER
if is_placed then
  Shard.count(K.without_workspace(), task)
  return 1
end
if find(how, '^[23]') then Tasks.name(task) end
local element = Jobs.element(task, id)
if not is_stored and call('HEXISTS', K.jobs(queue), id) == 1 then return 0 end
local key_field = key ~= '' and concat({ name, task, key }, ':')
local holder, was_dead
if key_field then holder, was_dead = Enqueue.key_holder(key_field) end
if holder then
  if schedule then Schedules.advance(schedule, 'skipped') end
  return { 3, holder }
end
local ws = Records.workspace(name)
local full = capacity and not (is_stored or is_admitted)
  and not Enqueue.is_admitted(exempt, group) and Enqueue.rejection(ws, queue, task)
if full then
  if schedule then Schedules.refused(schedule) end
  return full
end
if group ~= '' then Enqueue.admit(group, capacity) end
expires = expires ~= '' and now + expires
local times = (delay ~= '0' and '>' .. num(now + delay):sub(1, 14) or '')
  .. (expires and '/' .. num(expires) or '')
if not is_stored then
  Jobs.write_new(queue, id, Jobs.new(name, task, priority, payload, times))
end
if schedule then Schedules.advance(schedule, 'published') end
if key_field then Enqueue.take_key(key_field, queue, id, unique_for) end
if #exempt > 1 then Enqueue.pass_key_on(exempt, queue, id)
elseif exempt == '1' then Enqueue.hold_framework_id(name, queue, id, true) end
if unnamed == '1' then Shard.count(K.without_workspace(), task) end

Enqueue.enter(ws, queue, lane_key, priority, element, delay, expires)
if plain ~= shards and not may_move then Enqueue.mark_plain(capacity, tasks, shards) end
return was_dead and { 4 } or 1
