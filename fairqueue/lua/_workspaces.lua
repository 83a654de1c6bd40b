-- How each workspace stands: one hash field, read once and written once.
-- weight tat drained pace scheduled timer|flow;flow|task=mean;task=mean
-- A flow is how a workspace stands in one node: queue state since tag serial cost lanes
--   state: ready, parked, rate (waits for its rate), idle, rest (idle, F still ahead of V)
--   serial: its place among equal tags, nil unless it is in the ready set; lanes: priorities in use
Workspaces.known = {}

function Workspaces.parse_flow(text)
  local queue, state, since, tag, serial, cost, lanes =
    match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S*)$')
  return { queue = queue, state = state, since = tonumber(since), tag = tonumber(tag),
    serial = serial ~= '-' and serial or nil, cost = tonumber(cost), lanes = lanes }
end

function Workspaces.parse(ws)
  local weight, tat, drained, pace, scheduled, timer, flows, means =
    match(ws.raw, '^(%S+) (%S+) (%S+) (%S+) (%S+) ([^|]+)|([^|]*)|(.*)$')
  ws.weight, ws.tat, ws.drained, ws.pace = tonumber(weight), tonumber(tat), tonumber(drained), tonumber(pace)
  ws.scheduled, ws.timer = tonumber(scheduled), tonumber(timer)
  for text in gmatch(flows, '[^;]+') do insert(ws.flows, Workspaces.parse_flow(text)) end
  for task, mean in gmatch(means, '([^=;]+)=([^;]+)') do
    insert(ws.means, { task = task, mean = tonumber(mean) })
  end
end

function Workspaces.of(name)
  local ws = Workspaces.known[name]
  if ws then return ws end
  ws = { name = name, flows = {}, means = {}, tat = 0, drained = 0, pace = 0 }
  Workspaces.known[name] = ws
  ws.raw = call('HGET', K.workspaces(), name)
  if ws.raw then Workspaces.parse(ws) end
  return ws
end

function Workspaces.flow_of(ws, queue)
  for _, flow in ipairs(ws.flows) do
    if flow.queue == queue then return flow end
  end
  local flow = { queue = queue, state = 'idle', since = now, tag = 0, cost = 0, lanes = '' }
  insert(ws.flows, flow)
  return flow
end

function Workspaces.text_of(ws)
  local flows, means = {}, {}
  for i, f in ipairs(ws.flows) do
    flows[i] = concat({ f.queue, f.state, num(f.since), num(f.tag), f.serial or '-', num(f.cost), f.lanes }, ' ')
  end
  for i, m in ipairs(ws.means) do means[i] = m.task .. '=' .. num(m.mean) end
  local head = concat({ num(ws.weight), num(ws.tat), num(ws.drained), num(ws.pace),
    ws.scheduled and num(ws.scheduled) or '-', ws.timer and num(ws.timer) or '-' }, ' ')
  return concat({ head, concat(flows, ';'), concat(means, ';') }, '|')
end

-- A workspace of which nothing is left leaves no record.
function Workspaces.save(ws)
  local text = (#ws.flows > 0 or ws.timer) and Workspaces.text_of(ws) or false
  if text and text ~= ws.raw then call('HSET', K.workspaces(), ws.name, text) end
  if not text and ws.raw then call('HDEL', K.workspaces(), ws.name) end
end
