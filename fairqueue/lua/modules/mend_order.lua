-- What an operator's repair does where a workspace, a node or a shared limit does not stand where
-- it should. Each function looks at it once more, in the same step, and changes nothing that is
-- sound. The first argument is what the auditor knows beside its name.
local KEPT_ESTIMATES = 16 -- of a workspace, as in order.lua

-- Where a workspace stands in a node, and the node above it: what its record says and the sets do
-- not is forgotten, so that it is settled from the beginning.
function MendOrder.stand(entity, flow)
  if not flow.arrival then return end
  local member, tag = Order.member_of(entity, flow), tonumber(flow.tag)
  local ready = tonumber(call('ZSCORE', K.ready(flow.node), member) or nil)
  local reserved = tonumber(call('ZSCORE', K.reserved(flow.node), member) or nil)
  local wanted = flow.reserved and tag or nil
  if flow.state == 'ready' and ready == tag and reserved == wanted then return end
  Order.drop({ id = flow.node }, member)
  flow.arrival, flow.reserved, entity.dirty = nil, nil, true
end

-- What a flow names as a lane, and is none, goes; the others stand in order.
function MendOrder.lanes_of(ws, flow)
  local lanes = ''
  for lane in gmatch(flow.lanes, '[^,]+') do
    local priority = match(lane, '%d+')
    if call('EXISTS', K.lane(ws.name, flow.lane_key, priority),
      K.returned(ws.name, flow.lane_key, priority)) > 0 then
      lanes = Lanes.with(lanes, lane)
    end
  end
  if lanes ~= flow.lanes then flow.lanes, flow.first_task, ws.dirty = lanes, nil, true end
end

-- Too many estimates: the oldest go.
function MendOrder.estimates(ws)
  local _, kept = string.gsub(ws.duration_estimates, ';', '')
  for _ = KEPT_ESTIMATES + 1, kept do
    ws.duration_estimates = match(ws.duration_estimates, '^;[^;]+(.*)$') or ''
  end
end

-- A record that the auditor cannot read is set aside, if it is still the same; known: '=' and its
-- text. Scripts are less strict where they do not look at a number.
function MendOrder.set_aside(kind, key, name, known)
  local text = match(known, '^=(.*)$')
  if not text or call('HGET', key, name) ~= text then return end
  Shard.set_aside(kind, name, text)
  call('HDEL', key, name)
end

function MendOrder.workspace(known, name)
  MendOrder.set_aside('workspace', K.workspaces(), name, known)
  local ws = Records.workspace(name)
  Flows.read_all(ws)
  for _, flow in ipairs(ws.flows) do MendOrder.lanes_of(ws, flow) end
  MendOrder.estimates(ws)
  Repair.stands(ws, MendOrder.stand)
  Repair.workspace(ws)
  Settle.workspace(ws)
  return 'settled'
end

function MendOrder.lane(_, name, lane_key, priority)
  local ws = Records.workspace(name)
  if ws.is_unread then Repair.workspace(ws) end
  local flow = Records.flow(ws, lane_key)
  Records.register(flow.queue)
  MendOrder.lanes_of(ws, flow)
  Repair.lane(ws, lane_key, priority)
  if not Lanes.is_used(flow.lanes, priority) then
    call('UNLINK', K.holes(name, lane_key, priority))
    Lanes.count_holes(ws, flow, priority, -Lanes.holes_of(flow, priority))
  elseif Lanes.holes_of(flow, priority) > 0 then
    Lanes.tidy(ws, flow, priority)
  end
  S.touched_queues[flow.queue] = true
  Settle.workspace(ws)
  return 'settled'
end

-- A workspace or an inner node, by the name under which it stands in a node.
function MendOrder.entity(name)
  if match(name, '[/@]') then return MendOrder.node('', name) end
  return MendOrder.workspace('', name)
end

-- What stands in a ready set, and no record says so.
function MendOrder.member(_, node, member)
  Order.drop({ id = node }, member)
  MendOrder.entity(member:sub(17))
  return 'settled'
end

-- The flow of a workspace, or an inner node, that stands in this node; nil: it does not.
function MendOrder.flow_in(node, name)
  if match(name, '[/@]') then
    local b = call('HEXISTS', K.inner_nodes(), name) == 1 and Records.inner_node(name)
    return b and b.node == node and b or nil
  end
  local ws = Records.workspace(name)
  Flows.read_all(ws)
  for _, flow in ipairs(ws.flows) do
    if flow.node == node then return flow end
  end
end

-- A finish tag or a debt of what does not stand in this node, or of what is not in debt.
function MendOrder.tag(_, node, name)
  local flow = MendOrder.flow_in(node, name)
  call('ZREM', K.indebted(node), name)
  if not flow then
    call('ZREM', K.finish(node), name)
    return 'removed'
  end
  if flow.state == 'idle_with_debt' then Order.set_state(flow, 'idle') end
  MendOrder.entity(name)
  return 'settled'
end

-- The record of a queue. One that is above all fences would keep it from being found at rest.
function MendOrder.queue(known, queue)
  MendOrder.set_aside('queue', K.nodes(), queue, known)
  local node, newest = Records.register(queue), tonumber(Shard.load().fence)
  local last, running = tonumber(node.last_fence), call('HGETALL', K.slots_of_queue(queue))
  local highest = 0
  for i = 2, #running, 2 do highest = max(highest, tonumber(running[i]) or 0) end
  if last > newest or highest > last then node.last_fence = int(newest) end
  node.dirty, S.touched_queues[queue] = true, true
  return 'settled'
end

-- counts: members, weight and held as an inner node's record has them, and as they are. They are
-- added up from all records, so they hold only if the record still says the same.
function MendOrder.node(counts, id)
  if not match(id, '[/@]') then return MendOrder.queue(counts, id) end
  MendOrder.set_aside('node', K.inner_nodes(), id, counts)
  local b, found = Records.inner_node(id), {}
  for n in gmatch(counts, '%S+') do insert(found, tonumber(n)) end
  if #found == 6 and b.members == found[1] and b.total == found[2] and b.held == found[3] then
    b.members, b.total, b.held = found[4], found[5], found[6]
  end
  MendOrder.stand(b, b)
  Settle.upwards(b)
  return 'settled'
end

function MendOrder.token(_, queue)
  call('DEL', K.token(queue))
  S.touched_queues[queue] = true
  return 'woken'
end

function MendOrder.shared_limit(known, key)
  MendOrder.set_aside('shared_limit', K.shared_limits(), key, known)
  local shared = SharedLimitRecords.of(key)
  call('ZREM', K.timer(), key)
  shared.timer = nil
  Settle.shared_limit(key, true)
  return 'settled'
end

-- The list of the nodes that a shared limit closes.
function MendOrder.listed(_, key, id)
  local is_there = call('HEXISTS', K.inner_nodes(), id) == 1
  call(is_there and 'SADD' or 'SREM', K.nodes_of_shared_limit(key), id)
  Settle.shared_limit(key)
  return 'listed'
end
