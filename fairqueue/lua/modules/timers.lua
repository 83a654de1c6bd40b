-- What waits for time alone: scheduled jobs, rates, and jobs that expire. A workspace has one
-- timer, for the next of these.
function Timers.rate_time(ws)
  local limits = Limits.of_workspace(ws)
  local tat = tonumber(ws.tat)
  if not limits.rate or tat <= now then return nil end
  for _, flow in ipairs(ws.flows) do
    if flow.state == 'rate' then return Fairness.next_start(tat, limits.rate, limits.burst) end
  end
  return #ws.flows == 0 and tat or nil -- remembered until it could start a full burst
end

-- When the timer of a workspace goes off that has something due already: it keeps its place among
-- the due ones until it is fired, and goes behind them if not all of it was moved then.
function Timers.overdue(ws)
  return not ws.fired and ws.timer and ws.timer <= now and ws.timer or now
end

function Timers.arm(ws)
  local at, other = ws.scheduled, Timers.rate_time(ws)
  if other then at = min(at or other, other) end
  if ws.expiring then at = min(at or ws.expiring, ws.expiring) end
  if at and at <= now then at = Timers.overdue(ws) end
  if at == ws.timer then return end
  if at then call('ZADD', K.timer(), num(at), ws.name) else call('ZREM', K.timer(), ws.name) end
  ws.timer = at
  for _, flow in ipairs(ws.flows) do
    if flow.state == 'rate' then Wakeups.due[flow.queue] = at end
  end
end

function Timers.refresh_scheduled(ws)
  ws.scheduled = tonumber(call('ZRANGE', K.scheduled(ws.name), 0, 0, 'WITHSCORES')[2])
end

function Timers.schedule(ws, queue, priority, element, at)
  call('ZADD', K.scheduled(ws.name), num(at), Jobs.entry(queue, priority, element))
  ws.scheduled = min(ws.scheduled or at, at)
  Wakeups.due[queue] = at
end

-- Move due jobs of one workspace into its lanes, at most `most`; return how many.
function Timers.fire(ws, most)
  local due = call('ZRANGEBYSCORE', K.scheduled(ws.name), '-inf', now_text, 'LIMIT', 0, most)
  for _, entry in ipairs(due) do
    local queue, priority, element = Jobs.read_entry(entry)
    local task = Jobs.task_of(element or '')
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

-- COLD
-- Jobs that expire have an entry each while they wait.
function Timers.refresh_expiring(ws)
  ws.expiring = tonumber(call('ZRANGE', K.expiring(ws.name), 0, 0, 'WITHSCORES')[2])
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
