-- After an error in the middle of a script. Redis takes nothing back, so the jobs and leases that
-- the script had in its hands go back to where they stood, and what it changed is saved. After any
-- other damage the cleanup looks at each job, whether anything leads to it.
local WAIT_SECONDS = 5 -- until what has failed is tried again

function Rescue.text_of(said)
  if type(said) == 'table' then said = said.err end
  return tostring(said)
end

-- A lease that is granted or dropped by half holds nothing any more. Each level by itself: the same
-- error may come again.
function Rescue.remove_lease(l)
  if not pcall(call, 'HDEL', K.leases(), l.fence) then -- it is reaped when that is possible again
    return pcall(call, 'ZADD', K.expiry(), int(Fairness.microseconds(now + WAIT_SECONDS)), l.fence)
  end
  pcall(call, 'ZREM', K.expiry(), l.fence)
  pcall(call, 'SREM', K.slots_of_workspace(l.workspace), l.fence)
  if call('HGET', K.slots_of_queue(l.queue), l.id) == l.fence then
    pcall(call, 'HDEL', K.slots_of_queue(l.queue), l.id)
  end
  local done, keys = pcall(SharedLimits.give_back, Records.workspace(l.workspace), l)
  if done then pcall(Settle.shared_limits, keys) end
end

function Rescue.stands_in(name, lane_key, priority, element)
  if call('ZSCORE', K.returned(name, lane_key, priority), element) then return true end
  local holes = call('HGET', K.holes(name, lane_key, priority), element) or 0
  return call('LPOS', K.lane(name, lane_key, priority), element, 'RANK', holes + 1)
end

function Rescue.is_running(queue, id)
  local fence = call('HGET', K.slots_of_queue(queue), id)
  return fence and call('HEXISTS', K.leases(), fence) == 1
end

-- Whether it stands anywhere, whether or not that is named.
function Rescue.has_place(name, queue, priority, element)
  if Rescue.is_running(queue, Jobs.id_of(element)) then return true end
  if call('ZSCORE', K.scheduled(name), Jobs.entry(queue, priority, element)) then return true end
  return Rescue.stands_in(name, queue, priority, element)
    or Rescue.stands_in(name, queue .. '/' .. Jobs.task_of(element), priority, element)
end

-- To read a record may fail, too: it may need a node that cannot be made.
function Rescue.workspace(name)
  local done, ws = pcall(Records.workspace, name)
  return done and ws or { name = name, flows = {} }
end

-- A job that stands nowhere goes to the head of its lane. An expiry that it carries counts again.
function Rescue.place(name, queue, priority, element)
  local id = Jobs.id_of(element)
  local record = id and Jobs.read(queue, id)
  if not record then return end
  if Rescue.has_place(name, queue, priority, element) then return end
  local ws = Rescue.workspace(name)
  local lane_key = Lanes.key_of(queue, Jobs.task_of(element))
  call('LPUSH', K.lane(name, lane_key, priority), element)
  local expires = Jobs.expires_at(record)
  if expires then pcall(Timers.add_expiry, ws, queue, priority, element, expires) end
  local is_read = ws == S.workspaces[name]
  if not (is_read and pcall(Rescue.name_lane, ws, lane_key, priority)) then
    pcall(Records.find_later, ws)
  end
end

function Rescue.name_lane(ws, lane_key, priority)
  local flow = Records.flow(ws, lane_key)
  if not Lanes.is_used(flow.lanes, priority) then flow.lanes = Lanes.with(flow.lanes, priority) end
  flow.first_task, ws.dirty, S.touched_queues[flow.queue] = nil, true, true
end

-- Whether the record of a workspace names a lane. It may be long, so it is not parsed for that.
function Rescue.is_named(name, lane_key, priority)
  local read = S.records_read
  if not read[name] then read[name] = call('HGET', K.workspaces(), name) or '' end
  local lanes = WorkspaceRecords.lanes_in(read[name], lane_key)
  return lanes and Lanes.is_used(lanes, priority)
end

-- Whether the record of a workspace names a lane; and whether it does only now.
function Rescue.find_lane(name, lane_key, priority)
  if Rescue.is_named(name, lane_key, priority) then return true, false end
  local lane = concat({ name, lane_key, priority }, ':')
  local is_new = S.lanes_looked_for[lane] == nil
  if is_new then
    S.lanes_looked_for[lane] = Repair.lane(Records.workspace(name), lane_key, priority)
  end
  return S.lanes_looked_for[lane], is_new and S.lanes_looked_for[lane]
end

-- It starts by the workspace's timer, or stands in the schedule for nothing.
function Rescue.is_due_later(name, queue, priority, element)
  return call('ZSCORE', K.scheduled(name), Jobs.entry(queue, priority, element))
    and call('ZSCORE', K.timer(), name)
end

-- Look whether anything leads to this job, and else make it so. Return whether that was needed.
function Rescue.look_at(queue, id, record)
  if not Jobs.deliveries_of(record) then return false end
  local name, task, priority = Jobs.identity_of(record)
  local element = Jobs.element(task, id)
  local leads, has_found = Rescue.find_lane(name, queue, priority)
  if SharedLimits.is_indexed(task) then
    local also_leads, also_found = Rescue.find_lane(name, queue .. '/' .. task, priority)
    leads, has_found = leads or also_leads, has_found or also_found
  end
  if not (leads or Rescue.is_running(queue, id)
    or Rescue.is_due_later(name, queue, priority, element)) then
    Rescue.place(name, queue, priority, element)
    has_found = true
  end
  if has_found then
    local ws = Records.workspace(name)
    Timers.refresh_scheduled(ws)
    Timers.refresh_expiring(ws)
    Settle.workspace(ws)
  end
  return has_found
end

-- A job that could not be published leaves nothing. If not even that is possible, it is published.
function Rescue.remove_new(queue, id)
  local record = Jobs.read(queue, id)
  if not record then return end
  local name, task, priority = Jobs.identity_of(record)
  local element = Jobs.element(task, id)
  if Rescue.has_place(name, queue, priority, element) then return end
  if not pcall(Jobs.remove, queue, id) then return Rescue.place(name, queue, priority, element) end
  Timers.drop_expiry(Records.workspace(name), queue, priority, element)
end

-- Give back the leases that were not granted or dropped whole, or all of them, and place the jobs.
function Rescue.undo(all)
  for _, l in ipairs(S.touched_leases) do
    if all or not l.is_whole then
      pcall(Rescue.remove_lease, l)
      insert(S.taken_jobs, { l.workspace, l.queue, l.priority, Jobs.element(l.task, l.id) })
    end
  end
  for _, job in ipairs(S.added_jobs) do pcall(Rescue.remove_new, unpack(job)) end
  for _, job in ipairs(S.taken_jobs) do pcall(Rescue.place, unpack(job)) end
  for _, ws in pairs(S.workspaces) do pcall(Repair.stands, ws) end
end

-- It is settled again then.
function Rescue.set_timer(entity, at)
  call('ZADD', K.timer(), num(at), entity.name or entity.key)
  entity.timer, entity.waits_until, entity.dirty = at, num(at), true
end

-- Return what waits, in words.
function Rescue.let_wait(work, at)
  if work.fence then
    call('ZADD', K.expiry(), int(Fairness.microseconds(at)), work.fence)
    return 'lease ' .. work.fence
  elseif work.flow then
    Settle.fail(work.ws, work.flow)
    Rescue.set_timer(work.ws, at)
    return 'flow ' .. work.ws.name .. ' ' .. work.flow.lane_key
  end
  local is_shared = match(work.timer, '^[/@]')
  local entity = is_shared and SharedLimitRecords.of(work.timer) or Records.workspace(work.timer)
  Rescue.set_timer(entity, at)
  return 'timer ' .. work.timer
end

-- The lease, timer or flow at which the script has failed waits a while, so that all others go on.
-- If that fails too, or if the script was at none of them, the error is raised.
function Rescue.go_on(said)
  Rescue.undo(false)
  local work = S.at_work
  S.at_work = false
  if not work then error(said, 0) end
  local done, what = pcall(Rescue.let_wait, work, now + WAIT_SECONDS)
  if not done then error(said, 0) end
  Shard.set_aside('failure', what, Rescue.text_of(said))
end

-- The short way of a claim has failed in the middle: what was planned is noted as the general way
-- notes it, and so is where the workspaces stand.
function Rescue.after_short_way(plan, said)
  local meta = Shard.load()
  meta.fence, meta.arrival = int(max(tonumber(meta.fence), plan.fence)), int(plan.arrival)
  for _, leases in ipairs({ plan.ended, plan.started }) do
    for _, l in ipairs(leases) do insert(S.touched_leases, LeaseRecords.parse(l.fence, l.text)) end
  end
  for _, w in ipairs(plan.standings) do
    local ws = Records.workspace(w.name)
    ws.dirty = true
    for _, flow in ipairs(ws.flows) do
      local tag = flow.arrival and call('ZSCORE', K.ready(flow.node), Order.member_of(ws, flow))
      flow.tag = tag or flow.tag
    end
  end
  error(said, 0)
end

-- Save what can be saved, each by itself. The next claims settle every workspace once more: what
-- has failed here may have left one where it should not stand.
function Rescue.save()
  pcall(Sweep.beat) -- what waits now waits by this time, so it must not go back
  Shard.load().drain = '0'
  for _, ws in pairs(S.workspaces) do pcall(Repair.stands, ws) end
  pcall(Wakeups.settle_tokens)
  pcall(Shard.save_aside)
  for _, ws in pairs(S.workspaces) do
    if ws.is_unread or not pcall(Records.save_workspace, ws) then pcall(Records.find_later, ws) end
  end
  for _, node in pairs(S.nodes) do pcall(Records.save_node, node) end
  for _, shared in pairs(S.shared_limits) do pcall(SharedLimitRecords.save, shared) end
  pcall(Shard.save)
end

-- The script has failed: it changes as little as it can, is saved, and the error is raised.
function Rescue.after(said)
  Rescue.undo(true)
  for _, ws in pairs(S.workspaces) do
    if ws.dirty then pcall(Settle.workspace, ws) end
  end
  pcall(Rescue.go_on, said)
  Rescue.save()
  error(said, 0)
end
