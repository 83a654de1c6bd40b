-- How each workspace stands: one hash field, read once and written once.
--   weight tat drained pace scheduled timer|;flow;flow|;task=mean;task=mean
-- A flow is how a workspace stands in one node: queue state since tag serial cost lanes
--   state: ready, parked, rate (waits for its rate), idle, rest (idle, F still ahead of V)
--   serial: its place among equal tags, '-' unless it is in the ready set
--   lanes: the priorities in use
-- Numbers stay text until somebody reckons with them: to format one costs as much as a command.
Workspaces.known = {}
local PLAIN = '1 0 0 0 - -' -- most have neither weight, rate, capacity nor anything scheduled

function Workspaces.add_flows(ws, text)
  for queue, state, since, tag, serial, cost, lanes in
    gmatch(text, ';(%S+) (%a+) (%S+) (%S+) (%S+) (%S+) ([^;]*)') do
    insert(ws.flows, { queue = queue, state = state, since = since, tag = tag,
      serial = serial ~= '-' and serial or nil, cost = cost, lanes = lanes })
  end
end

-- The lanes in use of one flow, read without the rest; '' if it has none, or is none.
function Workspaces.lanes_in(raw, queue)
  local _, at = string.find(raw, ';' .. queue .. ' ', 1, true)
  return at and match(raw, '^%a+ %S+ %S+ %S+ %S+ ([^;|]*)', at + 1) or ''
end

function Workspaces.read_head(ws, head)
  local scheduled, timer
  ws.weight, ws.tat, ws.drained, ws.pace, scheduled, timer = match(head, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  ws.scheduled, ws.timer = tonumber(scheduled), tonumber(timer)
end

function Workspaces.of(name)
  local ws = Workspaces.known[name]
  if ws then return ws end
  local raw = call('HGET', K.workspaces(), name)
  if raw then
    local head, flows, means = match(raw, '^([^|]*)|([^|]*)|(.*)$')
    ws = { name = name, raw = raw, flows = {}, means = means, weight = '1', tat = '0', drained = '0', pace = '0' }
    if head ~= PLAIN then Workspaces.read_head(ws, head) end
    Workspaces.add_flows(ws, flows)
  else
    ws = { name = name, flows = {}, means = '', tat = '0', drained = '0', pace = '0' }
  end
  Workspaces.known[name] = ws
  return ws
end

function Workspaces.flow_of(ws, queue)
  for _, flow in ipairs(ws.flows) do
    if flow.queue == queue then return flow end
  end
  local flow = { queue = queue, state = 'idle', since = now_text, tag = '0', cost = '0', lanes = '' }
  insert(ws.flows, flow)
  return flow
end

function Workspaces.text_of(ws)
  local text = ws.weight .. ' ' .. ws.tat .. ' ' .. ws.drained .. ' ' .. ws.pace .. ' '
    .. (ws.scheduled and num(ws.scheduled) or '-') .. ' ' .. (ws.timer and num(ws.timer) or '-') .. '|'
  for _, f in ipairs(ws.flows) do
    text = text .. ';' .. f.queue .. ' ' .. f.state .. ' ' .. f.since .. ' ' .. f.tag .. ' '
      .. (f.serial or '-') .. ' ' .. f.cost .. ' ' .. f.lanes
  end
  return text .. '|' .. ws.means
end

-- A workspace of which nothing is left leaves no record.
function Workspaces.save(ws)
  if not ws.dirty then return end
  if #ws.flows > 0 or ws.timer then
    call('HSET', K.workspaces(), ws.name, Workspaces.text_of(ws))
  elseif ws.raw then
    call('HDEL', K.workspaces(), ws.name)
  end
end
