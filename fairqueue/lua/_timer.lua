-- What waits for time alone: scheduled jobs and rates. One timer entry per workspace.
function Timer.rate_time(ws)
  local limits = Limits.of(ws)
  local tat = tonumber(ws.tat)
  if not limits.rate or tat <= now then return nil end
  for _, flow in ipairs(ws.flows) do
    if flow.state == 'rate' then return Fair.next_start(tat, limits.rate, limits.burst) end
  end
  return #ws.flows == 0 and tat or nil -- remembered until it could start a full burst
end

function Timer.arm(ws)
  local at, other = ws.scheduled, Timer.rate_time(ws)
  if other then at = min(at or other, other) end
  if ws.expiring then at = min(at or ws.expiring, ws.expiring) end
  if at == ws.timer then return end
  if at then call('ZADD', K.timer(), num(at), ws.name) else call('ZREM', K.timer(), ws.name) end
  ws.timer = at
  for _, flow in ipairs(ws.flows) do
    if flow.state == 'rate' then Wake.due[flow.queue] = at end
  end
end

function Timer.refresh_scheduled(ws)
  ws.scheduled = tonumber(call('ZRANGE', K.scheduled(ws.name), 0, 0, 'WITHSCORES')[2])
end

function Timer.schedule(ws, queue, priority, element, at)
  call('ZADD', K.scheduled(ws.name), num(at), concat({ queue, priority, element }, ' '))
  ws.scheduled = min(ws.scheduled or at, at)
  Wake.due[queue] = at
end

-- Move due jobs of one workspace into its lanes, at most `most`; return how many.
function Timer.fire(ws, most)
  local due = call('ZRANGEBYSCORE', K.scheduled(ws.name), '-inf', now_text, 'LIMIT', 0, most)
  for _, member in ipairs(due) do
    local queue, priority, element = match(member, '^(%S+) (%S+) (.*)$')
    call('ZREM', K.scheduled(ws.name), member)
    Lanes.push(ws, Workspaces.flow_of(ws, Lanes.place_of(queue, match(element, '^%d+'))), priority, element)
  end
  Timer.refresh_scheduled(ws)
  return #due + (ws.expiring and #due < most and Expiry.fire(ws, most - #due) or 0)
end
