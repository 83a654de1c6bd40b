-- Jobs that are removed where they wait: dropped for good, cancelled, expired into the dead
-- letters, or handed over to another system's lists in the same Redis.

-- The id is remembered, so that a repeated publish is not a new job.
function Removal.job(queue, id)
  local hands_over = S.handover_lists[1]
  local is_read = S.leaves_notices or hands_over or call('EXISTS', K.unique()) == 1
  local record = is_read and Jobs.read(queue, id) or ''
  if S.leaves_notices then Removal.leave_notice(queue, id, record) end
  if hands_over and not Removal.hand_over(queue, id, record) then return 0 end
  Shard.remember_ended(id)
  Enqueue.forget_keys(queue, id, record)
  return call('HDEL', K.jobs(queue), id)
end

function Removal.leave_notice(queue, id, record)
  local deliveries = Jobs.deliveries_of(record)
  if not deliveries then return end
  DeadLetters.add_cancelled(Jobs.identity_of(record), queue, id, deliveries, record)
end

-- "0 celery 3 celery%06%163 ..."
function Removal.read_lists(text)
  local function char(hex) return string.char(tonumber(hex, 16)) end
  for least, list in gmatch(text, '(%d+) (%S+)') do
    insert(S.handover_lists, { tonumber(least), (string.gsub(list, '%%(%x%x)', char)) })
  end
end

-- A job goes to the last list whose least priority it reaches; the other system reads them from
-- their other end. Return whether it has gone.
function Removal.hand_over(queue, id, record)
  if not Jobs.deliveries_of(record) then return Removal.set_aside(queue, id, record or nil) end
  local _, _, priority = Jobs.identity_of(record)
  local to
  for _, one in ipairs(S.handover_lists) do
    if tonumber(priority) >= one[1] then to = one[2] end
  end
  return call('LPUSH', to, Jobs.payload_of(record))
end

function Removal.lanes(ws, flow, most)
  Shard.refuse_moved(ws.name)
  local n = 0
  while n < most and flow.lanes ~= '' do
    local jobs, priority = Lanes.take(ws, flow, most - n)
    for _, element in ipairs(jobs) do
      n = n + Removal.job(flow.queue, Jobs.id_of(ws.name, flow.queue, element))
      if ws.expiring then Timers.drop_expiry(ws, flow.queue, priority, element) end
    end
    if #jobs == 0 and not Shard.take_step() then break end
  end
  return n
end

function Removal.scheduled(ws, most)
  Shard.refuse_moved(ws.name)
  local n = 0
  for _, entry in ipairs(call('ZRANGE', K.scheduled(ws.name), 0, most - 1)) do
    local queue, _, element = Jobs.read_entry(entry)
    local id = Jobs.id_of(ws.name, queue, element)
    n = n + Removal.job(queue, id) * call('ZREM', K.scheduled(ws.name), entry)
    if ws.expiring then call('ZREM', K.expiring(ws.name), entry) end
  end
  Timers.refresh_scheduled(ws)
  if ws.expiring then Timers.refresh_expiring(ws) end
  return n
end

-- What stands in the lanes of a workspace, of one queue or of all (''); of all, also what is
-- scheduled.
function Removal.waiting(ws, queue, most)
  local n = 0
  for _, flow in ipairs(Flows.all(ws)) do
    if n < most and flow.lanes ~= '' and (queue == '' or flow.queue == queue) then
      n = n + Removal.lanes(ws, Records.flow(ws, flow.lane_key), most - n)
      S.touched_queues[flow.queue] = true
    end
  end
  if n < most and queue == '' and ws.scheduled then n = n + Removal.scheduled(ws, most - n) end
  if n > 0 or ws.dirty then Settle.workspace(ws) end
  return n
end

-- A page of the jobs of a queue that wait or are scheduled, of one workspace and task or of all
-- (nil): by their records, since a schedule has those of all queues, and a lane of all tasks.
function Removal.page(queue, cursor, count, name, task)
  local following_cursor, found = Jobs.page(K.jobs(queue), cursor, count)
  local n, seen = 0, {}
  for i = 1, #found, 2 do
    local of, its_task = Jobs.identity_of(found[i + 1])
    if not Jobs.deliveries_of(found[i + 1]) then
      Removal.set_aside(queue, found[i], found[i + 1])
    elseif (not name or of == name) and (not task or its_task == task) then
      local ws = Removal.by_record(queue, found[i], found[i + 1])
      if ws then n, seen[of] = n + 1, ws end
    end
  end
  for _, ws in pairs(seen) do Settle.workspace(ws) end
  return following_cursor, n
end

-- A record that cannot be read does not say where its job stands: a claim passes its element.
function Removal.set_aside(queue, id, record)
  if not Shard.keeps_aside() then return end
  Shard.set_aside('job', id, record)
  call('HDEL', K.jobs(queue), id)
end

-- Take one job out of its schedule or lane; false: it is in neither.
function Removal.pick(ws, queue, priority, element)
  if call('ZREM', K.scheduled(ws.name), Jobs.entry(queue, priority, element)) == 1 then
    Jobs.take(ws.name, queue, priority, { element })
    Timers.refresh_scheduled(ws)
    return true
  end
  local id = Jobs.id_of(ws.name, queue, element)
  if call('HEXISTS', K.slots_of_queue(queue), id) == 1 then return false end
  local flow = call('HEXISTS', K.jobs(queue), id) == 1
    and Lanes.flow_of(ws, queue, priority, element)
  if flow then
    Jobs.take(ws.name, queue, priority, { element })
    Lanes.remove(ws, flow, priority, element)
  end
  return flow and true or false
end

-- Remove a waiting job and its record. Return its workspace, which the caller settles; nil: the job
-- waits nowhere.
function Removal.by_record(queue, id, record)
  local name, task, priority = Jobs.identity_of(record)
  Shard.refuse_moved(name)
  local ws, element = Records.workspace(name), Jobs.element(task, id)
  if not Removal.pick(ws, queue, priority, element) then return end
  Removal.job(queue, id)
  Timers.drop_expiry(ws, queue, priority, element)
  return ws
end

-- Cancel it by its id: return its record; nil: it waits nowhere. Its notice is left in the same
-- step, so that no lost reply can hide its end.
function Removal.by_id(queue, id)
  local record = Jobs.read(queue, id)
  S.leaves_notices = true
  local ws = Jobs.deliveries_of(record) and Removal.by_record(queue, id, record)
  if not ws then return end
  Settle.workspace(ws)
  return record
end

function Removal.move_to_dead_letters(ws, queue, element)
  local id = Jobs.id_of(ws.name, queue, element)
  local record = Jobs.read(queue, id)
  local deliveries = Jobs.deliveries_of(record)
  if not deliveries then return Shard.set_aside('job', id, record) end
  DeadLetters.add(ws.name, queue, id, 'expired', deliveries, record, true)
  call('HDEL', K.jobs(queue), id)
  Shard.remember_ended(id)
end

-- Whether the first job of a flow has expired.
function Removal.is_first_expired(ws, flow)
  if not ws.expiring or ws.expiring > now then return false end
  local element, priority = Lanes.head(ws, flow)
  if not element then return false end
  local at = call('ZSCORE', K.expiring(ws.name), Jobs.entry(flow.queue, priority, element))
  return at and tonumber(at) <= now
end

-- Remove what has expired, at most `most`, each of which is a step; return how many. The caller
-- settles the workspace.
function Removal.expired(ws, most)
  if not ws.expiring or ws.expiring > now then return 0 end
  local expired = call('ZRANGEBYSCORE', K.expiring(ws.name), '-inf', now_text, 'LIMIT', '0', most)
  for _, entry in ipairs(expired) do
    local queue, priority, element = Jobs.read_entry(entry)
    if not Jobs.task_of(element or '') then
      Shard.set_aside('expiry', ws.name, entry)
    elseif Removal.pick(ws, queue, priority, element) then
      Removal.move_to_dead_letters(ws, queue, element)
    end
    call('ZREM', K.expiring(ws.name), entry) -- last: after an error it has still to be done
  end
  Timers.refresh_expiring(ws)
  Shard.took_steps(#expired)
  return #expired
end
