-- Places in a node's order: entering with a tag, leaving, and moving by a charge or a weight.
local function member_of(ws, flow)
  return format('%015.0f:%s', tonumber(flow.serial), ws.name)
end

local function place(ws, flow)
  call('ZADD', K.ready(flow.queue), num(flow.tag), member_of(ws, flow))
end

local function leave(ws, flow)
  if not flow.serial then return end
  call('ZREM', K.ready(flow.queue), member_of(ws, flow))
  flow.serial = nil
end

-- F, the tag of the last dispatch; nil: none, or forgotten.
local function finish_of(ws, flow)
  if flow.finish == nil then
    flow.finish = tonumber(call('ZSCORE', K.finish(flow.queue), ws.name) or nil) or false
  end
  return flow.finish or nil
end

local function set_finish(ws, flow, finish)
  flow.finish = finish
  call('ZADD', K.finish(flow.queue), num(finish), ws.name)
end

local function stand(flow, state)
  if flow.state ~= state then flow.state, flow.since = state, now end
end

-- The flow at the head of a node's order: its workspace, tag and cost.
local function head_of(node)
  local member, tag = unpack(call('ZRANGE', K.ready(node.queue), 0, 0, 'WITHSCORES'))
  if not member then return nil end
  local ws = workspace(match(member, '^%d+:(.*)$'))
  return ws, tonumber(tag), flow_of(ws, node.queue).cost
end

local function catch_up(node)
  local ws, tag, cost = head_of(node)
  local highest = not ws and call('ZREVRANGE', K.finish(node.queue), 0, 0, 'WITHSCORES')[2]
  local v = caught_up(node.v, tag, ws and cost / ws.weight, tonumber(highest or nil))
  if v ~= node.v then node.v, node.dirty = v, true end
end

local function enter(ws, flow, cost)
  local node, step = node_of(flow.queue), cost / ws.weight
  if flow.state == 'rest' then call('ZREM', K.resting(flow.queue), ws.name) end
  if flow.state == 'idle' or flow.state == 'rest' then catch_up(node) end
  flow.tag = base_of(flow.state, node.v, finish_of(ws, flow), step, node.big) + step
  flow.cost, flow.serial = cost, following('serial')
  place(ws, flow)
  stand(flow, 'ready')
  touched[flow.queue] = true
end

-- Move F, and the tag with it, by worker-seconds used more or less than charged.
local function charge(ws, queue, seconds)
  if seconds == 0 then return end
  local flow, shift = flow_of(ws, queue), seconds / ws.weight
  set_finish(ws, flow, (finish_of(ws, flow) or node_of(queue).v) + shift)
  if flow.serial then
    flow.tag = flow.tag + shift
    place(ws, flow)
  end
end

-- A new weight rescales the distances from V, as if old charges had been made under it.
local function reweigh(ws, flow, ratio)
  local v, finish = node_of(flow.queue).v, finish_of(ws, flow)
  if finish then set_finish(ws, flow, rescaled(finish, v, ratio)) end
  if flow.serial then
    flow.tag = rescaled(flow.tag, v, ratio)
    place(ws, flow)
  end
end
