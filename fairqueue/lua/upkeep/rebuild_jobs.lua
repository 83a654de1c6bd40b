-- Jobs and leases: each job stands in one place, and each lease holds a slot at every level. What a
-- script has begun and not ended is put right in the same way.
local WAIT_SECONDS = 5 -- until what has failed is tried again

-- The places in which a job of this record may stand: kind workspace lane_key priority element.
function RebuildJobs.places_of(queue, id, record)
  local name, task, priority = Jobs.identity_of(record)
  local element, places = Jobs.element(task, id), {}
  for _, lane_key in ipairs({ queue, queue .. '/' .. task }) do
    insert(places, { 'returned', name, lane_key, priority, element })
    insert(places, { 'lane', name, lane_key, priority, element })
  end
  insert(places, { 'scheduled', name, queue, priority, element })
  return places
end

-- Whether an element stands in this place, behind `before` others that are equal.
function RebuildJobs.is_in(place, before)
  local kind, name, lane_key, priority, element = unpack(place)
  if kind == 'lane' then
    local holes = call('HGET', K.holes(name, lane_key, priority), element) or 0
    return call('LPOS', K.lane(name, lane_key, priority), element, 'RANK', holes + before + 1)
  elseif before > 0 then return false -- no set has it twice
  elseif kind == 'returned' then
    return call('ZSCORE', K.returned(name, lane_key, priority), element)
  end
  return call('ZSCORE', K.scheduled(name), Jobs.entry(lane_key, priority, element))
end

function RebuildJobs.take_out(place)
  local kind, name, lane_key, priority, element = unpack(place)
  local ws = Records.workspace(name)
  ws.dirty = true
  if kind == 'scheduled' then
    call('ZREM', K.scheduled(name), Jobs.entry(lane_key, priority, element))
    return Timers.refresh_scheduled(ws)
  end
  Rebuild.lane(ws, lane_key, priority)
  local flow = Records.flow(ws, lane_key)
  if kind == 'returned' then
    call('ZREM', K.returned(name, lane_key, priority), element)
    return Lanes.tidy_returned(ws, flow, priority)
  end
  call('HINCRBY', K.holes(name, lane_key, priority), element, 1)
  Lanes.count_holes(ws, flow, priority, 1)
  Lanes.tidy(ws, flow, priority)
end

-- The first place that fits the record is kept, if there is to be one; the job is taken out of all
-- others. Return that place, and whether it was in others.
function RebuildJobs.keep_one(places, record, is_waiting)
  local owner, _, rank = Jobs.identity_of(record or '')
  local kept, was_taken_out
  for _, place in ipairs(places) do
    local is_kept = kept and concat(place, ' ') == concat(kept, ' ')
    if RebuildJobs.is_in(place, is_kept and 1 or 0) then
      if is_waiting and not kept and place[2] == owner and place[4] == rank then
        kept = place
      else
        RebuildJobs.take_out(place)
        was_taken_out = true
      end
    end
  end
  return kept, was_taken_out
end

-- To read a record may fail, too: it may need a node that cannot be made.
function RebuildJobs.workspace(name)
  local done, ws = pcall(Records.workspace, name)
  return done and ws or { name = name, flows = {} }
end

-- A job that stands nowhere goes to the head of its lane, or to the schedule if it is not due yet.
function RebuildJobs.place(name, queue, priority, element, record)
  local ws, task = RebuildJobs.workspace(name), Jobs.task_of(element)
  local lane_key, due = Lanes.key_of(queue, task), Jobs.waits_since(record)
  local waits = due and due > now and pcall(Timers.schedule, ws, queue, priority, element, due)
  if not waits then call('LPUSH', K.lane(name, lane_key, priority), element) end
  RebuildJobs.lead_to(ws, not waits and lane_key, priority)
end

-- The record of a workspace names the lane in which a job stands, and its timer the schedule; one
-- that cannot be read is found by its keys.
function RebuildJobs.lead_to(ws, lane_key, priority)
  local is_read = ws == S.workspaces[ws.name]
  if not (is_read and (not lane_key or pcall(RebuildJobs.name_lane, ws, lane_key, priority))) then
    pcall(Records.find_later, ws)
  end
  ws.dirty = true
end

function RebuildJobs.name_lane(ws, lane_key, priority)
  local flow = Records.flow(ws, lane_key)
  if not Lanes.is_used(flow.lanes, priority) then flow.lanes = Lanes.with(flow.lanes, priority) end
  flow.first_task, S.touched_queues[flow.queue] = nil, true
end

-- A job that came back stands in the order of its first start. Return whether it was put there.
function RebuildJobs.put_in_order(place, record)
  local kind, name, lane_key, priority, element = unpack(place)
  if kind ~= 'returned' then return false end
  local fence = match(Jobs.history_of(record) or '', '^%d+/(%d+)') or '0'
  local returned = K.returned(name, lane_key, priority)
  if tonumber(call('ZSCORE', returned, element)) == tonumber(fence) then return false end
  call('ZADD', returned, fence, element)
  return true
end

-- The lease of a running job, and whether it runs: the record of its lease may be unreadable.
function RebuildJobs.lease_of(queue, id)
  local fence = call('HGET', K.slots_of_queue(queue), id)
  local raw = fence and LeaseRecords.raw(fence)
  local l = raw and LeaseRecords.parse(fence, raw)
  if l and (l.queue ~= queue or l.id ~= id) then return nil, false end
  return l, raw and true or false
end

function RebuildJobs.end_lease(l)
  l.ended = l.ended or now_text
  Leases.expire(l)
  return 'ended'
end

-- A job stands in one place, and what has no record stands nowhere. `found`: more places in which
-- it was seen. Return whether it was placed, or taken out of one. The caller settles what has
-- changed, see RebuildJobs.settle.
function RebuildJobs.job(queue, id, found)
  local record, places = Jobs.read(queue, id), found or {}
  if record and not Jobs.deliveries_of(record) then
    Removal.set_aside(queue, id, record)
    record = nil
  end
  local l, is_running = RebuildJobs.lease_of(queue, id)
  if l and not record then return RebuildJobs.end_lease(l) end
  for _, place in ipairs(record and RebuildJobs.places_of(queue, id, record) or {}) do
    insert(places, place)
  end
  local kept, was_taken_out = RebuildJobs.keep_one(places, record, record and not is_running)
  if is_running or not record then return was_taken_out and 'taken_out' end
  local name, task, priority = Jobs.identity_of(record)
  local element = Jobs.element(task, id)
  if not kept then
    RebuildJobs.place(name, queue, priority, element, record)
  else
    local lane_key = kept[1] == 'lane' and kept[3]
    RebuildJobs.lead_to(RebuildJobs.workspace(name), lane_key, priority)
  end
  local was_moved = kept and RebuildJobs.put_in_order(kept, record)
  local expires = Jobs.expires_at(record)
  if expires then
    local ws = RebuildJobs.workspace(name)
    ws.dirty = true
    pcall(Timers.add_expiry, ws, queue, priority, element, expires)
  end
  return not kept and 'placed' or was_taken_out and 'taken_out' or was_moved and 'ordered'
end

function RebuildJobs.taken(name, queue, _, element)
  return RebuildJobs.job(queue, Jobs.id_of(name, queue, element))
end

-- Settle what was changed: the workspaces, and the nodes that they may have left.
function RebuildJobs.settle(goes_on)
  RebuildJobs.settle_changed(S.workspaces, Settle.workspace, goes_on)
  RebuildJobs.settle_changed(S.nodes, Settle.upwards, goes_on)
end

function RebuildJobs.settle_changed(records, settle, goes_on)
  local names = {}
  for name, record in pairs(records) do
    if record.dirty and not record.gone then insert(names, name) end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local done, said = pcall(settle, records[name])
    if not (done or goes_on) then error(said, 0) end
  end
end

-- A job that could not be published leaves nothing. If not even that is possible, it is published.
function RebuildJobs.remove_new(id)
  local queue = Jobs.queue_of(id)
  local record = Jobs.read(queue, id)
  if not record then return end
  local places = RebuildJobs.places_of(queue, id, record)
  if RebuildJobs.keep_one(places, record, true) or not pcall(Jobs.remove, queue, id) then
    return RebuildJobs.job(queue, id)
  end
  local _, name, _, priority, element = unpack(places[1])
  Timers.drop_expiry(Records.workspace(name), queue, priority, element)
end

-- A lease that is granted or dropped by half holds nothing any more. Each level by itself: the same
-- error may come again.
function RebuildJobs.remove_lease(l)
  if not pcall(call, 'HDEL', K.leases(), l.fence) then -- it is reaped when that is possible again
    return pcall(LeaseRecords.keep_until, l.fence, now + WAIT_SECONDS)
  end
  pcall(call, 'ZREM', K.expiry(), l.fence)
  pcall(call, 'SREM', K.slots(l.workspace), l.fence)
  RebuildJobs.workspace(l.workspace).usage = false
  if call('HGET', K.slots_of_queue(l.queue), l.id) == l.fence then
    pcall(call, 'HDEL', K.slots_of_queue(l.queue), l.id)
  end
  local done, keys = pcall(SharedLimits.give_back, Records.workspace(l.workspace), l)
  if done then pcall(Settle.shared_limits, keys) end
end

-- After a script that has failed: give back the leases that were not granted or dropped whole, or
-- all of them, and place the jobs that were taken.
function RebuildJobs.undo(all)
  if all then S.granted = {} else Leases.save_granted() end
  for _, l in ipairs(S.touched_leases) do
    if all or not l.is_whole then
      pcall(RebuildJobs.remove_lease, l)
      insert(S.taken_jobs, { l.workspace, l.queue, l.priority, Jobs.element(l.task, l.id) })
    end
  end
  if S.added_job then pcall(RebuildJobs.remove_new, S.added_job) end
  for _, job in ipairs(S.taken_jobs) do pcall(RebuildJobs.taken, unpack(job)) end
  for _, ws in pairs(S.workspaces) do pcall(Rebuild.stands, ws) end
end

-- It is settled again then.
function RebuildJobs.set_timer(entity, at)
  Shard.expect(at)
  call('ZADD', K.timer(), num(at), entity.name or entity.key)
  entity.timer, entity.waits_until, entity.dirty = at, num(at), true
end

-- Return what waits, in words.
function RebuildJobs.let_wait(work, at)
  if work.fence then
    LeaseRecords.keep_until(work.fence, at)
    return 'lease ' .. work.fence
  elseif work.flow then
    Settle.fail(work.ws, work.flow)
    RebuildJobs.set_timer(work.ws, at)
    return 'flow ' .. work.ws.name .. ' ' .. work.flow.lane_key
  end
  local is_shared = match(work.timer, '^[/@]')
  local entity = is_shared and SharedLimitRecords.of(work.timer) or Records.workspace(work.timer)
  RebuildJobs.set_timer(entity, at)
  return 'timer ' .. work.timer
end

-- The lease, timer or flow at which the script has failed waits a while, so that all others go on.
-- If that fails too, or if the script was at none of them, the error is raised.
function RebuildJobs.go_on(said)
  RebuildJobs.undo(false)
  local work = S.at_work
  S.at_work = false
  if not work then error(said, 0) end
  local done, what = pcall(RebuildJobs.let_wait, work, now + WAIT_SECONDS)
  if not done then error(said, 0) end
  Shard.set_aside('failure', what, said)
end

-- Once more, where it has failed and goes on.
function RebuildJobs.twice(act, ...)
  local done, said = pcall(act, ...)
  if done then return said end
  RebuildJobs.go_on(said)
  return act(...)
end

-- Look whether anything leads to this job, and else make it so; to search its lane would take too
-- long. Return whether that was needed.
function RebuildJobs.look_at(queue, id, record)
  if not Jobs.deliveries_of(record) then return false end
  local name, task, priority = Jobs.identity_of(record)
  local ws, leads, has_found, lane_keys = Records.workspace(name), false, false, { queue }
  if SharedLimits.is_indexed(task) then insert(lane_keys, queue .. '/' .. task) end
  for _, lane_key in ipairs(lane_keys) do
    local flow = Records.flow(ws, lane_key, true)
    local is_named = flow and Lanes.is_used(flow.lanes, priority)
    local is_found = not is_named and Rebuild.lane(ws, lane_key, priority)
    leads, has_found = leads or is_named or is_found, has_found or is_found
  end
  local _, runs = RebuildJobs.lease_of(queue, id)
  local entry = Jobs.entry(queue, priority, Jobs.element(task, id))
  local is_due_later = call('ZSCORE', K.scheduled(name), entry) and call('ZSCORE', K.timer(), name)
  if not (leads or runs or is_due_later) then
    RebuildJobs.job(queue, id)
    has_found = true
  end
  if has_found then
    Timers.refresh_scheduled(ws)
    Timers.refresh_expiring(ws)
    Settle.workspace(ws)
  end
  return has_found
end
