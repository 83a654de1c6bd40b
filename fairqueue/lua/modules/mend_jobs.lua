-- What an operator's repair does with a job that is in no place or in several, and with a lease
-- that lacks a level, or has one too many: see mend_order.lua.
local MARKS_MOST = 64 -- marks of one hole that a call takes away
local DAY_MICROSECONDS = 86400000000 -- a fence that is ahead by more was never issued

-- The job stands again in the order of its first start.
function MendJobs.returned(_, name, lane_key, priority, element)
  local record = Jobs.read(match(lane_key, '^[^/]+'), Jobs.id_of(element) or '')
  local fence = match(record and Jobs.history_of(record) or '', '^%d+/(%d+)') or '0'
  local returned = K.returned(name, lane_key, priority)
  if not call('ZSCORE', returned, element) then return end
  call('ZADD', returned, fence, element)
  return 'put_in_order'
end

-- Marks without an element would make a hole of a job that comes there later.
function MendJobs.hole(_, name, lane_key, priority, element)
  local ws = Records.workspace(name)
  local flow, n = Records.flow(ws, lane_key), 0
  local function is_left_over()
    local marks = call('HGET', K.holes(name, lane_key, priority), element)
    return marks and not call('LPOS', K.lane(name, lane_key, priority), element, 'RANK', marks)
  end
  while n < MARKS_MOST and is_left_over() do
    Lanes.unmark(ws, flow, priority, element)
    n = n + 1
  end
  MendOrder.lane('', name, lane_key, priority)
  return n > 0 and 'counted'
end

-- Whether an element stands in this place, behind `before` others that are equal.
function MendJobs.is_in(kind, ws, lane_key, priority, element, before)
  if kind == 'returned' then
    return call('ZSCORE', K.returned(ws.name, lane_key, priority), element)
  elseif kind == 'scheduled' then
    return call('ZSCORE', K.scheduled(ws.name), Jobs.entry(lane_key, priority, element))
  end
  local holes = call('HGET', K.holes(ws.name, lane_key, priority), element) or 0
  return call('LPOS', K.lane(ws.name, lane_key, priority), element, 'RANK', holes + before + 1)
end

function MendJobs.take_out(kind, ws, lane_key, priority, element)
  if kind == 'scheduled' then
    call('ZREM', K.scheduled(ws.name), Jobs.entry(lane_key, priority, element))
    return Timers.refresh_scheduled(ws)
  end
  Repair.lane(ws, lane_key, priority)
  local flow = Records.flow(ws, lane_key)
  if kind == 'returned' then
    call('ZREM', K.returned(ws.name, lane_key, priority), element)
    return Lanes.tidy_returned(ws, flow, priority)
  end
  call('HINCRBY', K.holes(ws.name, lane_key, priority), element, 1)
  Lanes.count_holes(ws, flow, priority, 1)
  Lanes.tidy(ws, flow, priority)
end

-- The first place that fits its record is kept, if there is to be one; it is taken out of all
-- others. places: "kind workspace lane_key priority element" in lines.
function MendJobs.places(places, record, is_kept)
  local owner, _, rank = Jobs.identity_of(record or '')
  local kept, done = is_kept and '' or nil
  for place in gmatch(places, '[^\n]+') do
    local kind, name, lane_key, priority, element =
      match(place, '^(%S+) (%S+) (%S+) (%S+) (.*)$')
    local ws = kind ~= 'lease' and Records.workspace(name)
    if ws and MendJobs.is_in(kind, ws, lane_key, priority, element, kept == place and 1 or 0) then
      if not kept and name == owner and priority == rank then
        kept = place
      else
        MendJobs.take_out(kind, ws, lane_key, priority, element)
        Settle.workspace(ws)
        done = 'taken_out'
      end
    end
  end
  return kept, done
end

-- The record of a job; one that cannot be read is set aside.
function MendJobs.record_of(queue, id)
  local record = Jobs.read(queue, id)
  if not record or Jobs.deliveries_of(record) then return record or nil end
  Removal.set_aside(queue, id, record)
end

function MendJobs.end_lease(l)
  l.ended = l.ended or now_text
  Leases.expire(l)
  return 'ended'
end

-- A job stands in one place; what has no record stands nowhere.
function MendJobs.job(places, queue, id)
  local record = MendJobs.record_of(queue, id)
  local fence = call('HGET', K.slots_of_queue(queue), id)
  local l = fence and LeaseRecords.read(fence)
  if l and not record then return MendJobs.end_lease(l) end
  local kept, done = MendJobs.places(places, record, l or not record)
  if kept then return done end
  local name, task, priority = Jobs.identity_of(record)
  Records.register(queue)
  Rescue.place(name, queue, priority, Jobs.element(task, id))
  Settle.workspace(Records.workspace(name))
  return 'placed'
end

-- What expires and does not wait.
function MendJobs.expiring(_, name, entry)
  local ws, queue, priority, element = Records.workspace(name), Jobs.read_entry(entry)
  local id = Jobs.id_of(element or '')
  if id and call('HEXISTS', K.slots_of_queue(queue), id) == 0
    and Rescue.has_place(name, queue, priority, element) then
    return
  end
  call('ZREM', K.expiring(name), entry)
  Timers.refresh_expiring(ws)
  Settle.workspace(ws)
  return 'taken_out'
end

-- What stands in a schedule and names no job.
function MendJobs.scheduled(_, name, entry)
  local _, _, element = Jobs.read_entry(entry)
  if Jobs.task_of(element or '') then return end
  local ws = Records.workspace(name)
  call('ZREM', K.scheduled(name), entry)
  Timers.refresh_scheduled(ws)
  Settle.workspace(ws)
  return 'taken_out'
end

-- A lease that has no job, or whose fence no claim can have issued, ends.
function MendJobs.is_over(l)
  local fence, now_micros = tonumber(l.fence), now * 1000000
  return not Jobs.deliveries_of(Jobs.read(l.queue, l.id) or nil)
    or fence > now_micros + DAY_MICROSECONDS
    or tonumber(l.claimed) <= now and fence <= l.claimed * 1000000
end

-- It holds its slots at every level, and no longer than its length.
function MendJobs.complete(l)
  local meta, ends = Shard.load(), call('ZSCORE', K.expiry(), l.fence)
  ends = ends and Fairness.seconds(ends)
  if tonumber(l.fence) > tonumber(meta.fence) then meta.fence = l.fence end
  if tonumber(l.claimed) > now then l.claimed = now_text end
  Sweep.beat()
  if not ends or ends > now + l.length then ends = now + l.length end
  if l.ended and tonumber(l.ended) >= ends then l.ended = nil end
  call('ZADD', K.expiry(), int(Fairness.microseconds(ends)), l.fence)
  LeaseRecords.save(l)
  local ws = Records.workspace(l.workspace)
  call('SADD', K.slots_of_workspace(l.workspace), l.fence)
  call('HSET', K.slots_of_queue(l.queue), l.id, l.fence)
  Settle.shared_limits(SharedLimits.move('SADD', ws, l))
  MendOrder.queue('', l.queue)
  Settle.workspace(ws)
end

function MendJobs.lease(known, fence)
  local l = LeaseRecords.read(fence)
  if not l or '=' .. LeaseRecords.raw(fence) == known then
    l = Sweep.repaired(fence)
    call('ZREM', K.expiry(), fence)
    return l and MendJobs.end_lease(l) or 'ended'
  end
  if MendJobs.is_over(l) then return MendJobs.end_lease(l) end
  local other = call('HGET', K.slots_of_queue(l.queue), l.id)
  if other and other ~= fence and call('HEXISTS', K.leases(), other) == 1 then
    Rescue.remove_lease(l)
    return 'ended'
  end
  MendJobs.complete(l)
  return 'completed'
end

-- A slot that its fence's lease does not hold, or whose lease is not there.
function MendJobs.slot(_, kind, name, ...)
  local fence = select(kind == 'slots_of_workspace_task' and 2 or 1, ...)
  local l = LeaseRecords.read(fence)
  if l and MendJobs.holds(l, kind, name, ...) then return MendJobs.lease('', fence) end
  MendJobs.free(kind, name, fence, ...)
  return 'freed'
end

function MendJobs.holds(l, kind, name, of, job)
  if kind == 'slots_of_workspace' then return l.workspace == name end
  if kind == 'slots_of_queue' then return l.queue == name and l.id == job end
  if kind == 'slots_of_workspace_task' then return l.workspace == name and l.task == of end
  return '/' .. l.task == name or '@' .. (Records.workspace(l.workspace).parent or '') == name
end

function MendJobs.free(kind, name, fence, of, job)
  if kind == 'slots_of_workspace' then
    call('SREM', K.slots_of_workspace(name), fence)
    Settle.workspace(Records.workspace(name))
  elseif kind == 'slots_of_queue' then
    if call('HGET', K.slots_of_queue(name), job) == fence then
      call('HDEL', K.slots_of_queue(name), job)
    end
    S.touched_queues[name] = true
  elseif kind == 'slots_of_workspace_task' then
    call('SREM', K.slots_of_workspace_task(name, of), fence)
    Settle.workspace(Records.workspace(name))
  else
    call('SREM', K.slots_of_shared_limit(name), fence)
    Settle.shared_limit(name)
  end
end
