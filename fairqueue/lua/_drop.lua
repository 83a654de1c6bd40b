-- COLD: Jobs that are dropped where they wait. Their ids are remembered, so that a repeated publish of one
-- is no new job.
function Drop.job(queue, element)
  local id = match(element, '^%d+:(.*)$')
  Ended.add(id)
  Unique.forget(queue, id)
  return call('HDEL', K.jobs(queue), id)
end

function Drop.lanes(ws, flow, most)
  local n = 0
  while n < most and flow.lanes ~= '' do
    local priority, others = match(flow.lanes, '^(%d+),?(.*)$')
    local lane = K.lane(ws.name, flow.place, priority)
    for _, element in ipairs(call('LPOP', lane, most - n)) do
      n = n + Drop.job(flow.queue, element)
      if ws.expiring then Expiry.drop(ws, flow.queue, priority, element) end
    end
    if call('EXISTS', lane) == 0 then flow.lanes = others end
  end
  flow.head = nil
  return n
end

function Drop.scheduled(ws, queue, most, task)
  local n = 0
  for _, member in ipairs(call('ZRANGE', K.scheduled(ws.name), 0, queue == '' and not task and most - 1 or -1)) do
    local of, element = match(member, '^(%S+) %S+ (.*)$')
    if n < most and (queue == '' or of == queue) and (not task or match(element, '^%d+') == task) then
      n = n + Drop.job(of, element) * call('ZREM', K.scheduled(ws.name), member)
      if ws.expiring then call('ZREM', K.expiring(ws.name), member) end
    end
  end
  Timer.refresh_scheduled(ws)
  if ws.expiring then Expiry.refresh(ws) end
  return n
end

-- What waits of a workspace on one queue, or on all ('').
function Drop.waiting(ws, queue, most)
  local n = 0
  for _, flow in ipairs(ws.flows) do
    if n < most and flow.lanes ~= '' and (queue == '' or flow.queue == queue) then
      n = n + Drop.lanes(ws, flow, most - n)
      Wake.touched[flow.queue] = true
    end
  end
  if n < most and ws.scheduled then n = n + Drop.scheduled(ws, queue, most - n) end
  if n > 0 then Settle.workspace(ws) end
  return n
end

-- Mark a running job as cancelled; false: it was before.
function Drop.running(l)
  if l.cancelled then return false end
  l.cancelled = true
  Lease.keep(l)
  return true
end
