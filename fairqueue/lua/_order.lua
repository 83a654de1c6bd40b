-- Places in a node's order: entering with a tag, leaving, and moving by a charge or a weight.
function Order.member_of(ws, flow)
  return ('000000000000000' .. flow.serial):sub(-15) .. ':' .. ws.name
end

function Order.place(ws, flow, tag)
  flow.tag = num(tag)
  call('ZADD', K.ready(flow.queue), flow.tag, Order.member_of(ws, flow))
end

function Order.leave(ws, flow)
  if not flow.serial then return end
  call('ZREM', K.ready(flow.queue), Order.member_of(ws, flow))
  flow.serial = nil
end

-- F, the tag of the last dispatch, as text; nil: none, or forgotten.
function Order.finish_of(ws, flow)
  if flow.finish == nil then flow.finish = call('ZSCORE', K.finish(flow.queue), ws.name) end
  return flow.finish or nil
end

function Order.set_finish(ws, flow, finish)
  flow.finish = finish
  call('ZADD', K.finish(flow.queue), finish, ws.name)
end

function Order.stand(flow, state)
  if flow.state ~= state then flow.state, flow.since = state, now_text end
end

-- The flow at the head of a node's order: its workspace and tag.
function Order.head_of(node)
  local member, tag = unpack(call('ZRANGE', K.ready(node.queue), 0, 0, 'WITHSCORES'))
  if member then return Workspaces.of(member:sub(17)), tag end
end

function Order.catch_up(node)
  local ws, tag = Order.head_of(node)
  local step = ws and Workspaces.flow_of(ws, node.queue).cost / ws.weight
  local highest = not ws and call('ZREVRANGE', K.finish(node.queue), 0, 0, 'WITHSCORES')[2]
  local v = Fair.caught_up(node.v, tonumber(tag), step, tonumber(highest or nil))
  if v ~= node.v then node.v, node.dirty = v, true end
end

function Order.enter(ws, flow, cost)
  local node, step = Nodes.of(flow.queue), cost / ws.weight
  if flow.state == 'rest' then call('ZREM', K.resting(flow.queue), ws.name) end
  if flow.state == 'idle' or flow.state == 'rest' then Order.catch_up(node) end
  local finish = tonumber(Order.finish_of(ws, flow))
  flow.cost, flow.serial = num(cost), Meta.following('serial')
  Order.place(ws, flow, Fair.base_of(flow.state, node.v, finish, step, node.big) + step)
  Order.stand(flow, 'ready')
  Wake.touched[flow.queue] = true
end

-- Move F, and the tag with it, by worker-seconds used more or less than charged. There is an F:
-- it is not forgotten while a lease lives.
function Order.charge(ws, queue, seconds)
  if seconds == 0 then return end
  local flow, by = Workspaces.flow_of(ws, queue), num(seconds / ws.weight)
  ws.dirty = true
  flow.finish = call('ZINCRBY', K.finish(queue), by, ws.name)
  if flow.serial then flow.tag = call('ZINCRBY', K.ready(queue), by, Order.member_of(ws, flow)) end
end

-- A new weight rescales the distances from V, as if old charges had been made under it.
function Order.reweigh(ws, flow, ratio)
  local v, finish = Nodes.of(flow.queue).v, Order.finish_of(ws, flow)
  if finish then Order.set_finish(ws, flow, num(Fair.rescaled(finish, v, ratio))) end
  if flow.serial then Order.place(ws, flow, Fair.rescaled(flow.tag, v, ratio)) end
end
