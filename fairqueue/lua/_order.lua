-- Places in a node's order: entering with a tag, leaving, and moving by a charge or a weight.
function Order.member_of(ws, flow)
  return ('000000000000000' .. flow.serial):sub(-15) .. ':' .. ws.name
end

function Order.place(ws, flow, tag)
  flow.tag = num(tag)
  call('ZADD', K.ready(flow.node), flow.tag, Order.member_of(ws, flow))
  if flow.first then call('ZADD', K.first(flow.node), flow.tag, Order.member_of(ws, flow)) end
end

function Order.leave(ws, flow)
  if not flow.serial then return end
  call('ZREM', K.ready(flow.node), Order.member_of(ws, flow))
  if flow.first then First.rank(ws, flow, false) end
  flow.serial = nil
end

-- F, the tag of the last dispatch, as text; nil: none, or forgotten.
function Order.finish_of(ws, flow)
  if flow.finish == nil then flow.finish = call('ZSCORE', K.finish(flow.node), ws.name) end
  return flow.finish or nil
end

function Order.set_finish(ws, flow, finish)
  flow.finish = finish
  call('ZADD', K.finish(flow.node), finish, ws.name)
end

function Order.stand(flow, state)
  if flow.state ~= state then flow.state, flow.since = state, now_text end
end

function Order.catch_up(node)
  local who, flow = Turn.head_of(node)
  local highest = not who and call('ZREVRANGE', K.finish(node.id), 0, 0, 'WITHSCORES')[2]
  local v = Fair.caught_up(node.v, who and tonumber(flow.tag), who and flow.cost / who.weight, tonumber(highest or nil))
  if v ~= node.v then node.v, node.dirty = v, true end
end

function Order.enter(ws, flow, cost)
  local node, step = Nodes.of(flow.node), cost / ws.weight
  if flow.state == 'rest' then call('ZREM', K.resting(flow.node), ws.name) end
  if flow.state == 'idle' or flow.state == 'rest' or flow.state == 'busy' or flow.state == 'paused' then Order.catch_up(node) end
  local finish = tonumber(Order.finish_of(ws, flow))
  flow.cost, flow.serial = num(cost), Meta.following('serial')
  Order.place(ws, flow, Fair.base_of(flow.state, node.v, finish, step, node.big) + step)
  Order.stand(flow, 'ready')
  Wake.touched[node.queue] = true
end

-- Move F, and the tag with it, by worker-seconds used more or less than charged. There is an F:
-- it is not forgotten while a lease lives.
function Order.charge(ws, place, seconds)
  if seconds == 0 then return end
  local flow = Workspaces.flow_of(ws, place)
  if flow.up then Dues.charge(ws, flow, seconds) else Order.shift(ws, flow, seconds) end
end

function Order.shift(ws, flow, seconds)
  local by = num(seconds / ws.weight)
  ws.dirty = true
  flow.finish = call('ZINCRBY', K.finish(flow.node), by, ws.name)
  if flow.serial then flow.tag = call('ZINCRBY', K.ready(flow.node), by, Order.member_of(ws, flow)) end
  if flow.first then call('ZINCRBY', K.first(flow.node), by, Order.member_of(ws, flow)) end
end

-- A new weight rescales the distances from V, as if old charges had been made under it.
function Order.reweigh(ws, flow, ratio)
  local v, finish = Nodes.of(flow.node).v, Order.finish_of(ws, flow)
  if finish then Order.set_finish(ws, flow, num(Fair.rescaled(finish, v, ratio))) end
  if flow.serial then Order.place(ws, flow, Fair.rescaled(flow.tag, v, ratio)) end
end
