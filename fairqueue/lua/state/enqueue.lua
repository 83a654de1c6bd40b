-- What is accepted: capacity, groups that are admitted whole, and unique keys; and how a job
-- enters.
local LOOKED_AT = 3 -- this many keys are checked for being out of date with every new one
local GROUP_SECONDS = 7200 -- a group's jobs follow its first within this time of the last

-- Only a capacity needs to know for long which groups are in. Where there is none, a group is known
-- as long as the id of an ended job, for a capacity or drain that is set while it is published.
function Enqueue.admit(group, has_capacity)
  if not has_capacity then return Shard.remember_ended('@' .. group) end
  Enqueue.take_key('@' .. group, '-', '-', GROUP_SECONDS)
end

function Enqueue.is_admitted(exempt, group)
  if exempt ~= '0' then return true end
  if group == '' then return false end
  return Enqueue.key_holder('@' .. group) or Shard.has_ended('@' .. group)
end

-- A draining scope has no capacity; its limit is then told as -1. kept_in: where places are kept
-- for others, if it is not the workspace itself.
function Enqueue.full(scope, limits, waiting, at, wanted, ws, kept_in)
  local over, kept = waiting + wanted - limits.capacity, 0
  if over <= 0 then
    kept = kept_in and KeptPlaces.from(ws, kept_in, wanted) or 0
    if over + kept <= 0 then return nil end
  end
  if kept_in and not limits.draining and wanted <= limits.capacity then
    KeptPlaces.note(ws, kept_in, wanted)
  end
  local limit = limits.draining and -1 or limits.capacity
  local last_start, interval = tonumber(at.last_start), tonumber(at.start_interval)
  local idle = last_start > 0 and num(now - last_start) or '-1'
  return { 2, scope, limit, waiting, num(interval), idle, kept }
end

-- The rejection of jobs, or nil: this many want into the workspace, into the queue, and in all;
-- false: not to look at the total.
function Enqueue.full_for(name, queue, task, of_workspace, of_queue, of_all)
  local most = Limits.of_name(name).capacity
  local waiting = most and Lanes.waiting_in(name)
  if waiting and waiting + of_workspace > most then
    local ws = Records.workspace(name)
    return Enqueue.full('workspace', Limits.of_workspace(ws), waiting, ws, of_workspace)
  end
  if not Limits.any('wide_capacity') then return nil end
  local node, ws = Records.node(queue), Records.workspace(name)
  local limits, total = Limits.of_queue(node)
  return limits.capacity
    and Enqueue.full('queue', limits, Lanes.depth_of(queue), node, of_queue, ws, queue)
    or Limits.is_draining(task) and { 2, 'task', 0, 0, '0', '-1', 0 }
    or total.capacity and of_all
    and Enqueue.full('total', total, Lanes.total_depth(), node, of_all, ws, '*')
    or nil
end

-- No capacity rejects jobs: no place is kept for them any more.
function Enqueue.is_let_in(name, queue, of_workspace, of_queue, of_all)
  if Limits.any('wide_capacity') then
    local limits, total = Limits.of_queue(Records.node(queue))
    if limits.capacity then KeptPlaces.forget(name, queue) end
    if total.capacity then KeptPlaces.forget(name, '*') end
  end
  if Limits.any('observe') then
    Explain.observe_publish(Records.workspace(name), queue, of_workspace, of_queue, of_all)
  end
end

-- The rejection of one more job, or nil.
function Enqueue.rejection(name, queue, task)
  local full = Enqueue.full_for(name, queue, task, 1, 1, 1)
  if not full then Enqueue.is_let_in(name, queue, 1, 1, 1) end
  return full
end

-- Whether a workspace lives on another shard, or the caller knows other shards: see moves.lua.
function Enqueue.is_elsewhere(name, shards)
  local mark = Limits.any('mark')
  local knows_it = not mark or shards == mark or shards == ''
    or find('>' .. mark .. '>', '>' .. shards .. '>', 1, true)
  if not knows_it then return true end
  return (Limits.any('moves') or Limits.any('forwards')) and Shard.has_moved(name)
end

-- A job whose record is stored enters its lane, or waits for its time. Behind others of its lane
-- one that does not expire changes nothing about where its workspace stands.
function Enqueue.enter(name, queue, task, priority, element, delay, expires)
  local lane_key = Lanes.key_of(queue, task)
  local length = delay == '0' and Lanes.append(name, lane_key, priority, element)
  if length and length > 1 and not expires then return end
  local ws = Records.workspace(name)
  if expires then Timers.add_expiry(ws, queue, priority, element, expires) end
  if length then Lanes.note(ws, Records.flow(ws, lane_key), priority, element, length)
  else Timers.schedule(ws, queue, priority, element, now + delay) end
  Records.register(queue)
  Settle.workspace(ws)
end

-- The id that a framework has given a job and its retries is held like a unique key of no task. The
-- own id of a retry, and of a message from another broker, ends in it.
function Enqueue.framework_field(id)
  local name, of_framework = match(id, '^([^/]+)/[^/]*/[%w_]+~(.+)$')
  return name and name .. '::' .. of_framework
end

-- unless_held: by another job.
function Enqueue.hold_framework_id(queue, id, unless_held)
  local field = Enqueue.framework_field(id)
  if field then
    call(unless_held and 'HSETNX' or 'HSET', K.unique(), field, concat({ queue, id, '0' }, ' '))
  end
end

-- The job of the retry to which a framework's id leads; nil: there is none.
function Enqueue.retry_with(name, id)
  return match(call('HGET', K.unique(), name .. '::' .. id) or '', '^%S+ (%S+)')
end

-- A retry holds the key that the job of this lease holds: return its field, until when it holds it,
-- and the key itself; nil: it holds none.
function Enqueue.key_of_retried(l)
  local record = l and Jobs.read(l.queue, l.id)
  local field = record and Jobs.unique_field(record)
  if not field then return end
  local holder, until_then = Jobs.holder_of(field)
  if holder == l.queue .. ' ' .. l.id then return field, until_then, Jobs.key_of(record) end
end

-- A dead job whose key another one took over comes back, and holds it again; or return the id of
-- the job that holds it now.
function Enqueue.take_key_back(queue, id, record)
  local field = Jobs.unique_field(record)
  if not field or Jobs.holder_of(field) == queue .. ' ' .. id then return end
  local holder = Enqueue.key_holder(field)
  if not holder then Enqueue.take_key(field, queue, id, '') end
  return holder
end

-- What the entries of a group say: workspace, queue, task, and how many jobs want into each scope.
-- The total asks every queue, so only the last entry has a number for it.
function Enqueue.read_entries(entries)
  local read, wanted, all = {}, {}, 0
  for queue, name, task_name, n in gmatch(entries, '(%S+) (%S+) (%S+) (%d+);') do
    insert(read, { queue = queue, name = name, task_name = task_name })
    wanted[queue .. ' '] = (wanted[queue .. ' '] or 0) + n
    wanted[name], all = (wanted[name] or 0) + n, all + n
  end
  for i, one in ipairs(read) do
    one.workspace, one.queued = wanted[one.name], wanted[one.queue .. ' ']
    one.total = i == #read and all
  end
  return read
end

-- The rejection of a group, or nil; with how many of its jobs want in where it is full, and the
-- entry that met it.
function Enqueue.rejection_of_group(entries)
  local read = Enqueue.read_entries(entries)
  for i, one in ipairs(read) do
    local full = Enqueue.full_for(one.name, one.queue, one.task_name, one.workspace, one.queued,
      one.total)
    if full then
      full[8], full[9] = full[2] == 'queue' and one.queued or one[full[2]] or 0, i - 1
      return full
    end
  end
  for _, one in ipairs(read) do
    Enqueue.is_let_in(one.name, one.queue, one.workspace, one.queued, one.total)
  end
  return nil
end

-- Unique keys, of a workspace and task: one job at a time holds each.
function Enqueue.is_alive(queue, id)
  return call('HEXISTS', K.jobs(queue), id) == 1
end

function Enqueue.is_dead(field, id)
  return call('HEXISTS', K.dead_letters(match(field, '^[^:]+')), id) == 1
end

-- A job goes before its time, and frees its keys. Its id may have been published again since.
function Enqueue.forget_keys(queue, id, record)
  Jobs.free_key(Jobs.unique_field(record), queue, id)
  Jobs.free_key(Enqueue.framework_field(id), queue, id)
end

function Enqueue.drop_if_over(field, held)
  local queue, id, until_then = match(held, '^(%S+) (%S+) ([%d.]+)$')
  local counts = id and (now < tonumber(until_then) or Enqueue.is_alive(queue, id)
    or Enqueue.is_dead(field, id))
  if not counts then call('HDEL', K.unique(), field) end
end

function Enqueue.sweep_keys()
  for _, field in ipairs(call('HRANDFIELD', K.unique(), LOOKED_AT)) do
    Enqueue.drop_if_over(field, call('HGET', K.unique(), field))
  end
end

-- The id of the job that holds the key, or nil; and whether the job that held it is dead.
-- A key counts while its job lives, or, with a time of its own, for that time and no longer.
function Enqueue.key_holder(field)
  local held = call('HGET', K.unique(), field)
  if not held then return nil, false end
  local queue, id, until_then = match(held, '^(%S+) (%S+) (%S+)$')
  if Enqueue.is_dead(field, id) and not Enqueue.is_alive(queue, id) then return nil, true end
  local counts
  if until_then == '0' then
    counts = Enqueue.is_alive(queue, id)
  else
    counts = now < tonumber(until_then)
  end
  return counts and id or nil, false
end

function Enqueue.take_key(field, queue, id, seconds)
  local until_then = seconds == '' and '0' or num(now + seconds)
  local is_new = call('HSET', K.unique(), field, concat({ queue, id, until_then }, ' ')) == 1
  if is_new then Enqueue.sweep_keys() end
end
