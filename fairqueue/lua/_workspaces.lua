-- How each workspace stands: one hash field, read once and written once.
--   weight tat drained pace scheduled[/expiring] timer parent|;flow;flow|;task=mean;task=mean
-- A flow is how a workspace stands in one node: place state since tag serial cost lanes
--   place: a queue, or queue/task for a task that has a limit of its own
--   state: ready, first (ready, below its reserve), parked, paused, rate, lane (at this task's limit per workspace), busy (nothing waits
--     here, some of it runs), idle, rest (idle, F still ahead of V)
--   serial: its place among equal tags, '-' unless it is in the ready set; lanes: priorities in use
-- Numbers stay text until somebody reckons with them: to format one costs as much as a command.
Workspaces.known = {}
local HEAD = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ?(%S*)$'
local PLAIN = '1 0 0 0 - -' -- most have neither weight, rate, capacity nor anything scheduled

function Workspaces.add_flows(ws, text)
  for place, state, since, tag, serial, cost, lanes in
    gmatch(text, ';(%S+) (%a+) (%S+) (%S+) (%S+) (%S+) ([^;]*)') do
    local flow = { place = place, queue = place, node = place, state = state == 'first' and 'ready' or state, since = since, tag = tag,
      serial = serial ~= '-' and serial or nil, first = state == 'first', cost = cost, lanes = lanes }
    insert(ws.flows, flow)
    if ws.parent or find(place, '/', 1, true) then Branches.hang(ws, flow) end
  end
end

function Workspaces.read_head(ws, head)
  local scheduled, timer, parent
  ws.weight, ws.tat, ws.drained, ws.pace, scheduled, timer, parent = match(head, HEAD)
  ws.parent = parent ~= '' and parent or nil
  local first, expiring = match(scheduled, '^([^/]+)/?(.*)$')
  ws.scheduled, ws.expiring, ws.timer = tonumber(first), tonumber(expiring), tonumber(timer)
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

function Workspaces.flow_of(ws, place)
  for _, flow in ipairs(ws.flows) do
    if flow.place == place then return flow end
  end
  local flow = { place = place, queue = place, node = place, state = 'idle', since = now_text, tag = '0', cost = '0', lanes = '' }
  insert(ws.flows, flow)
  if ws.parent or find(place, '/', 1, true) then
    Branches.hang(ws, flow)
    Branches.add_member(flow.up, 1)
    ws.dirty = true
  end
  return flow
end

function Workspaces.text_of(ws)
  local text = ws.weight .. ' ' .. ws.tat .. ' ' .. ws.drained .. ' ' .. ws.pace .. ' '
    .. (ws.scheduled and num(ws.scheduled) or '-') .. (ws.expiring and '/' .. num(ws.expiring) or '')
    .. ' ' .. (ws.timer and num(ws.timer) or '-') .. (ws.parent and ' ' .. ws.parent or '') .. '|'
  for _, f in ipairs(ws.flows) do
    text = text .. ';' .. f.place .. ' ' .. (f.first and 'first' or f.state) .. ' ' .. f.since .. ' ' .. f.tag .. ' '
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
