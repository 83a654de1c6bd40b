-- What waits for time alone: scheduled jobs, rates, and jobs that expire. A workspace has one
-- timer, for the next of these; it is due while flows have to follow the workspace or are put off.
function Timers.rate_time(ws)
  local limits = Limits.of_workspace(ws)
  local tat = tonumber(ws.tat)
  if not limits.rate or tat <= now then return nil end
  local waits = ws.others and WorkspaceRecords.has_state(ws.others, 'rate')
  for _, flow in ipairs(ws.flows) do waits = waits or flow.state == 'rate' end
  if waits then return Fairness.next_start(tat, limits.rate, limits.burst) end
  if #ws.flows > 0 or ws.others then return nil end
  return tat -- remembered until it could start a full burst
end

-- While the workspace waits for its own rate, none of its flows waits for that of a task.
function Timers.task_rate_time(ws)
  local tasks, at = ws.others and WorkspaceRecords.tasks_in(ws.others, 'task_rate') or {}
  for _, flow in ipairs(ws.flows) do
    if flow.state == 'task_rate' then tasks[flow.task] = true end
  end
  for task in pairs(tasks) do
    local opens = TaskRates.opens(ws.name, task, Limits.of_task(task)) or now
    at = min(at or opens, opens)
  end
  return at
end

-- Whether a claim has put off a flow: the timer is due until that can start.
function Timers.has_put_off(ws)
  for _, flow in ipairs(ws.flows) do
    if flow.state == 'put_off' then return true end
  end
  return ws.others and WorkspaceRecords.has_state(ws.others, 'put_off')
end

-- When the timer of a workspace goes off that has something due already: it keeps its place among
-- the due ones until it is fired, and goes behind them if not all of it was moved then.
function Timers.overdue(ws)
  return not ws.fired and ws.timer and ws.timer <= now and ws.timer or now
end

-- Whether anything but a rate may bring it something: most wait for nothing.
function Timers.may_wait(ws)
  return ws.waits or ws.timer or ws.scheduled or ws.expiring or ws.follows or ws.move or ws.others
end

function Timers.arm(ws)
  local at, other = ws.scheduled, Timers.rate_time(ws) or Timers.task_rate_time(ws)
  if other then at = min(at or other, other) end
  if ws.expiring then at = min(at or ws.expiring, ws.expiring) end
  if ws.move or ws.follows or Timers.has_put_off(ws) then at = min(at or now, now) end
  if at and at <= now then at = Timers.overdue(ws) end
  if at == ws.timer then return end
  if not at then
    call('ZREM', K.timer(), ws.name)
  else
    local is_new = call('ZADD', K.timer(), num(at), ws.name) == 1
    local is_lost = not (is_new or ws.timer) -- the record that named it: found by its keys at once
    if is_lost then call('ZADD', K.timer(), now_text, ws.name) end
    Shard.expect(is_lost and now or at)
  end
  ws.timer = at
  for _, flow in ipairs(ws.flows) do
    local waits = flow.state == 'rate' or flow.state == 'task_rate' or flow.state == 'put_off'
    if waits and at then Wakeups.expect(flow.queue, at) end
  end
end

function Timers.refresh_scheduled(ws)
  ws.scheduled = tonumber(call('ZRANGE', K.scheduled(ws.name), '0', '0', 'WITHSCORES')[2])
end

function Timers.schedule(ws, queue, priority, element, at)
  call('ZADD', K.scheduled(ws.name), num(at), Jobs.entry(queue, priority, element))
  ws.scheduled = min(ws.scheduled or at, at)
  Wakeups.expect(queue, at)
end

-- Move due jobs of one workspace into its lanes, at most `most`; return how many.
function Timers.fire(ws, most)
  local due = call('ZRANGEBYSCORE', K.scheduled(ws.name), '-inf', now_text, 'LIMIT', '0', most)
  for _, entry in ipairs(due) do
    local queue, priority, element = Jobs.read_entry(entry)
    local task = Jobs.task_and_id(ws.name, queue or '', element)
    call('ZREM', K.scheduled(ws.name), entry)
    if task then
      Jobs.take(ws.name, queue, priority, { element })
      Lanes.push(ws, Records.flow(ws, Lanes.key_of(queue, task)), priority, element)
    else
      Shard.set_aside('schedule', ws.name, entry)
    end
  end
  Timers.refresh_scheduled(ws)
  return #due
end

-- Jobs that expire have an entry each while they wait.
function Timers.refresh_expiring(ws)
  ws.expiring = tonumber(call('ZRANGE', K.expiring(ws.name), '0', '0', 'WITHSCORES')[2])
end

function Timers.add_expiry(ws, queue, priority, element, at)
  call('ZADD', K.expiring(ws.name), num(at), Jobs.entry(queue, priority, element))
  ws.expiring = min(ws.expiring or at, at)
end

-- The job starts, or is dropped.
function Timers.drop_expiry(ws, queue, priority, element)
  if call('ZREM', K.expiring(ws.name), Jobs.entry(queue, priority, element)) == 1 then
    Timers.refresh_expiring(ws)
  end
end
