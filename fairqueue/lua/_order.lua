-- Places in a node's order: entering with a tag, leaving, and moving by a charge or a weight.
function Order.member_of(ws, flow)
  return format('%015.0f:%s', tonumber(flow.serial), ws.name)
end

function Order.place(ws, flow)
  call('ZADD', K.ready(flow.queue), num(flow.tag), Order.member_of(ws, flow))
end

function Order.leave(ws, flow)
  if not flow.serial then return end
  call('ZREM', K.ready(flow.queue), Order.member_of(ws, flow))
  flow.serial = nil
end

-- F, the tag of the last dispatch; nil: none, or forgotten.
function Order.finish_of(ws, flow)
  if flow.finish == nil then
    flow.finish = tonumber(call('ZSCORE', K.finish(flow.queue), ws.name) or nil) or false
  end
  return flow.finish or nil
end

function Order.set_finish(ws, flow, finish)
  flow.finish = finish
  call('ZADD', K.finish(flow.queue), num(finish), ws.name)
end

function Order.stand(flow, state)
  if flow.state ~= state then flow.state, flow.since = state, now end
end

-- The flow at the head of a node's order: its workspace, tag and cost.
function Order.head_of(node)
  local member, tag = unpack(call('ZRANGE', K.ready(node.queue), 0, 0, 'WITHSCORES'))
  if not member then return nil end
  local ws = Workspaces.of(match(member, '^%d+:(.*)$'))
  return ws, tonumber(tag), Workspaces.flow_of(ws, node.queue).cost
end

function Order.catch_up(node)
  local ws, tag, cost = Order.head_of(node)
  local highest = not ws and call('ZREVRANGE', K.finish(node.queue), 0, 0, 'WITHSCORES')[2]
  local v = Fair.caught_up(node.v, tag, ws and cost / ws.weight, tonumber(highest or nil))
  if v ~= node.v then node.v, node.dirty = v, true end
end

function Order.enter(ws, flow, cost)
  local node, step = Nodes.of(flow.queue), cost / ws.weight
  if flow.state == 'rest' then call('ZREM', K.resting(flow.queue), ws.name) end
  if flow.state == 'idle' or flow.state == 'rest' then Order.catch_up(node) end
  flow.tag = Fair.base_of(flow.state, node.v, Order.finish_of(ws, flow), step, node.big) + step
  flow.cost, flow.serial = cost, Meta.following('serial')
  Order.place(ws, flow)
  Order.stand(flow, 'ready')
  Wake.touched[flow.queue] = true
end

-- Move F, and the tag with it, by worker-seconds used more or less than charged.
function Order.charge(ws, queue, seconds)
  if seconds == 0 then return end
  local flow, shift = Workspaces.flow_of(ws, queue), seconds / ws.weight
  Order.set_finish(ws, flow, (Order.finish_of(ws, flow) or Nodes.of(queue).v) + shift)
  if flow.serial then
    flow.tag = flow.tag + shift
    Order.place(ws, flow)
  end
end

-- A new weight rescales the distances from V, as if old charges had been made under it.
function Order.reweigh(ws, flow, ratio)
  local v, finish = Nodes.of(flow.queue).v, Order.finish_of(ws, flow)
  if finish then Order.set_finish(ws, flow, Fair.rescaled(finish, v, ratio)) end
  if flow.serial then
    flow.tag = Fair.rescaled(flow.tag, v, ratio)
    Order.place(ws, flow)
  end
end
