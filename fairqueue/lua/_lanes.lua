-- A lane is one list per priority, of "task:id"; the flow names the priorities that are in use.
function Lanes.used(lanes, priority)
  if lanes == priority then return true end
  for p in gmatch(lanes, '%d+') do
    if p == priority then return true end
  end
end

function Lanes.with(lanes, priority)
  local all = {}
  for p in gmatch(lanes, '%d+') do insert(all, tonumber(p)) end
  insert(all, tonumber(priority))
  table.sort(all)
  return concat(all, ',')
end

function Lanes.push(ws, flow, priority, element, to_head)
  call(to_head and 'LPUSH' or 'RPUSH', K.lane(ws.name, flow.place, priority), element)
  if not Lanes.used(flow.lanes, priority) then flow.lanes, ws.dirty = Lanes.with(flow.lanes, priority), true end
  flow.head = nil
end

function Lanes.pop(ws, flow)
  local priority, others = match(flow.lanes, '^(%d+),?(.*)$')
  local lane = K.lane(ws.name, flow.place, priority)
  local element, following_element = unpack(call('LRANGE', lane, 0, 1))
  call('LPOP', lane)
  flow.head = following_element and match(following_element, '^%d+')
  if not following_element then flow.lanes = others end
  return element, priority
end

-- A job was taken out of the middle: the lane may be empty now.
function Lanes.refresh(ws, flow, priority)
  flow.head = nil
  if call('EXISTS', K.lane(ws.name, flow.place, priority)) == 1 then return end
  local kept = {}
  for p in gmatch(flow.lanes, '%d+') do
    if p ~= priority then insert(kept, p) end
  end
  flow.lanes = concat(kept, ',')
  Wake.touched[flow.queue] = true
end

-- Where jobs of a task stand: a task that has a limit of its own has lanes of its own.
function Lanes.place_of(queue, task)
  return Limits.any('tasks') and Caps.of_task(task) and queue .. '/' .. task or queue
end

function Lanes.waiting_of(ws)
  local n = ws.scheduled and call('ZCARD', K.scheduled(ws.name)) or 0
  for _, flow in ipairs(ws.flows) do
    for priority in gmatch(flow.lanes, '%d+') do
      n = n + call('LLEN', K.lane(ws.name, flow.place, priority))
    end
  end
  return n
end

function Lanes.depth_of(queue)
  return call('HLEN', K.jobs(queue)) - call('SCARD', K.slots_of_queue(queue))
end

-- The lanes in use of one flow, read without the rest; '' if it has none, or is none.
function Lanes.used_in(raw, place)
  local _, at = find(raw, ';' .. place .. ' ', 1, true)
  return at and match(raw, '^%a+ %S+ %S+ %S+ %S+ ([^;|]*)', at + 1) or ''
end
