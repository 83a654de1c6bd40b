-- Time, counters and records: each is read once, and written once, by save().
local call, format, match, gmatch = redis.call, string.format, string.match, string.gmatch
local concat, insert, remove, max, min = table.concat, table.insert, table.remove, math.max, math.min

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] + t[2] / 1000000
end

local function num(x)
  return format('%.17g', x)
end

-- The shard's own numbers. 'fence' and 'serial' only grow.
local META = { 'fence', 'serial', 'beat', 'grace', 'watcher', 'watched', 'drain' }
local meta, meta_was

local function load_meta()
  if meta then return meta end
  meta, meta_was = {}, {}
  for i, value in ipairs(call('HMGET', K.meta(), unpack(META))) do
    meta[META[i]], meta_was[META[i]] = value or '', value or ''
  end
  return meta
end

local function following(counter)
  local n = num((tonumber(load_meta()[counter]) or 0) + 1)
  meta[counter] = n
  return n
end

-- A flow is how a workspace stands in one node.
-- state: ready, parked, rate (waits for its rate), idle, rest (idle, F still ahead of V)
-- serial: its place among equal tags, nil unless it is in the ready set; lanes: priorities in use
local function parse_flow(text)
  local queue, state, since, tag, serial, cost, lanes =
    match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S*)$')
  return { queue = queue, state = state, since = tonumber(since), tag = tonumber(tag),
    serial = serial ~= '-' and serial or nil, cost = tonumber(cost), lanes = lanes }
end

-- A workspace is one hash field: weight tat drained pace scheduled timer|flow;flow|task=mean;task=mean
local workspaces = {}

local function workspace(name)
  local ws = workspaces[name]
  if ws then return ws end
  ws = { name = name, flows = {}, means = {}, tat = 0, drained = 0, pace = 0 }
  workspaces[name] = ws
  ws.raw = call('HGET', K.workspaces(), name)
  if not ws.raw then return ws end
  local weight, tat, drained, pace, scheduled, timer, flows, means =
    match(ws.raw, '^(%S+) (%S+) (%S+) (%S+) (%S+) ([^|]+)|([^|]*)|(.*)$')
  ws.weight, ws.tat, ws.drained, ws.pace = tonumber(weight), tonumber(tat), tonumber(drained), tonumber(pace)
  ws.scheduled, ws.timer = tonumber(scheduled), tonumber(timer)
  for text in gmatch(flows, '[^;]+') do insert(ws.flows, parse_flow(text)) end
  for task, mean in gmatch(means, '([^=;]+)=([^;]+)') do
    insert(ws.means, { task = task, mean = tonumber(mean) })
  end
  return ws
end

local function flow_of(ws, queue)
  for _, flow in ipairs(ws.flows) do
    if flow.queue == queue then return flow end
  end
  local flow = { queue = queue, state = 'idle', since = now, tag = 0, cost = 0, lanes = '' }
  insert(ws.flows, flow)
  return flow
end
