-- Settle decides where a workspace and the nodes above it stand, after every event that can change
-- that. No other module puts a flow into a ready set or takes one out.
local FLOWS_AT_ONCE = 4 -- flows of a workspace that one call moves to another group

function Settle.unmark_idle(entity, flow)
  if flow.state == 'idle_with_debt' then call('ZREM', K.indebted(flow.node), entity.name) end
end

-- An empty flow: its finish tag is forgotten once it is behind virtual time, nothing waits and no
-- lease lives.
function Settle.retire(ws, flow)
  local runs = flow.has_started
  Order.leave(ws, flow)
  local finish_tag = Order.finish_tag_of(flow)
  local is_limited = finish_tag and flow.task and Limits.of_task(flow.task)
  if is_limited and Settle.is_busy(ws, flow) then return true end
  if finish_tag and finish_tag > Records.node(flow.node).virtual_time then
    if flow.state ~= 'idle_with_debt' then Order.mark_indebted(ws, flow) end
    return true
  end
  Settle.unmark_idle(ws, flow)
  if not finish_tag or is_limited or not (runs or Limits.usage_of(ws) > 0) then return false end
  Order.set_state(flow, 'idle')
  return true
end

function Settle.flow(ws, flow, block, is_below)
  if flow.lanes == '' then return Settle.retire(ws, flow) end
  if flow.task then block = block or SharedLimits.task_block(ws, flow) end
  block = block or flow.state == 'put_off' and not flow.is_clear and 'put_off'
  if block then
    Order.leave(ws, flow)
    Settle.unmark_idle(ws, flow)
    Order.set_state(flow, block)
    Order.note_highest(flow)
    ws.waits = true
  elseif not flow.arrival or flow.has_started then
    Order.enter(ws, flow, Order.cost_of(ws, flow))
  end
  if flow.arrival and (is_below or flow.reserved) then Order.set_reserved(ws, flow, is_below) end
  return true
end

function Settle.weigh(ws)
  local limits = Limits.of_workspace(ws)
  if ws.move or limits.parent ~= ws.parent then Settle.change_group(ws, limits.parent) end
  local old, new = ws.weight and tonumber(ws.weight), limits.weight
  if old == new then return end
  if ws.others then Flows.read_all(ws) end -- before: what a flow weighs is read with it
  ws.weight = num(new)
  if not old then return end
  for _, flow in ipairs(ws.flows) do Order.reweigh(ws, flow, old / new) end
end

-- Of many flows those that a call has read are settled, and some others follow.
function Settle.workspace(ws)
  if ws.is_unread then Rebuild.workspace(ws) end
  ws.dirty = true
  local limits = ws.limits or Limits.of_workspace(ws)
  if ws.weight ~= limits.weighs or ws.move or limits.parent ~= ws.parent then Settle.weigh(ws) end
  if limits.rate then
    local tat = tonumber(ws.tat)
    local under = Fairness.tat_under(tat, now, limits.rate, limits.burst)
    if under < tat then ws.tat = num(under) end
  end
  local block = limits.may_block and Limits.block_of(ws)
  local is_below = limits.reserve and Limits.usage_of(ws) < limits.reserve
  ws.follows = ws.others and Follow.go_on(ws, block, is_below)
  local flows, i = ws.flows, 1
  while flows[i] do
    local flow = flows[i]
    local stays = Settle.flow(ws, flow, block, is_below)
    if flow.up then Settle.member(ws, flow, stays) end
    if stays then i = i + 1 else table.remove(flows, i) end
  end
  if limits.rate or Timers.may_wait(ws) then Timers.arm(ws) end
end

-- A job of this flow starts: virtual time moves, and its workspace is settled.
function Settle.start(ws, flow, cost, guess)
  local node, stride = Records.node(flow.node), Fairness.stride(cost, ws.weight)
  if not (flow.reserved and Order.jumps(ws, node, flow, stride)) then
    node.virtual_time = max(node.virtual_time, Order.reach(ws, flow, guess))
  end
  if flow.cost == '0' then flow.tag = int(flow.tag + stride) end
  node.max_stride = Fairness.largest_stride(node.max_stride, stride)
  node.dirty, ws.dirty = true, true
  if flow.up then Settle.start_above(node, cost, guess) end
  flow.has_started = true
  flow.finish_tag = flow.tag
  Settle.workspace(ws)
end

-- Nothing waits in this flow of a task that has a limit; while some of it runs, it is busy.
function Settle.is_busy(ws, flow)
  if SharedLimits.running(ws, flow) == 0 then return false end
  Settle.unmark_idle(ws, flow)
  Order.set_state(flow, 'busy')
  Order.note_highest(flow)
  return true
end

-- A start in the inner nodes above a flow, for a job of this cost: what is in the tag is the cost
-- of the flow that was at the head when the node got it.
function Settle.start_above(b, cost, guess)
  while b.up do
    local stride = Fairness.stride(b.cost, b.weight)
    if not (b.reserved and Order.jumps(b, b.up, b, stride)) then
      b.up.virtual_time = max(b.up.virtual_time, Order.reach(b, b, guess or cost))
    end
    b.up.max_stride = Fairness.largest_stride(b.up.max_stride, stride)
    b.up.dirty, b.dirty = true, true
    b.finish_tag = int(b.tag + Fairness.whole((cost - b.cost) / b.weight))
    Order.leave(b, b)
    b = b.up
  end
end

-- A member of an inner node was settled: the node is settled with it.
function Settle.member(ws, flow, stays)
  Records.update_share(ws, flow, not stays)
  if not stays then Records.add_members(flow.up, -1) end
  Settle.upwards(flow.up)
end

-- A claim has failed at this flow: it takes no turn until its workspace is settled again.
function Settle.fail(ws, flow)
  ws.dirty = true
  Order.leave(ws, flow)
  Settle.unmark_idle(ws, flow)
  Order.set_state(flow, 'failed')
  if flow.up then Settle.member(ws, flow, true) end
end

-- This node and those above it, up to the queue's own.
function Settle.upwards(node)
  while node.up do
    Settle.node(node)
    node = node.up
  end
end

-- Where an inner node stands among its siblings.
function Settle.node(b)
  b.dirty = true
  Settle.weigh_node(b)
  local block = Settle.shared_limit(b.limit_key)
  if call('ZCARD', K.ready(b.id)) == 0 then
    Settle.retire_node(b)
  elseif block then
    Order.leave(b, b)
    Settle.unmark_idle(b, b)
    Order.set_state(b, block)
    Order.note_highest(b)
  elseif not b.arrival then
    local _, flow = Order.head_of(b)
    Order.enter(b, b, tonumber(flow.cost))
  end
  if b.arrival then Order.set_node_reserved(b) end
  Records.update_share(b, b, b.gone)
end

function Settle.weigh_node(b)
  local old = b.weight
  if b.limit_key:sub(1, 1) == '@' then
    b.weight = Limits.of_group(b.limit_key:sub(2)).weight
  elseif b.total > 0 then
    b.weight = Fairness.weight_of(b.total)
  end
  if old ~= b.weight then Order.reweigh(b, b, old / b.weight) end
end

-- An inner node with no runnable member is forgotten as a workspace is.
function Settle.retire_node(b)
  Order.leave(b, b)
  local finish_tag = Order.finish_tag_of(b)
  -- A member runs, or is blocked by a limit or a pause of its own.
  if call('ZCARD', K.indebted(b.id)) < b.members then
    Settle.unmark_idle(b, b)
    Order.note_highest(b)
    local owes = finish_tag and finish_tag > b.up.virtual_time
    return Order.set_state(b,
      b.held > 0 and 'at_task_limit' or (b.total > 0 or owes) and 'busy' or 'idle')
  end
  if b.members > 0 or finish_tag and finish_tag > b.up.virtual_time then
    return Settle.mark_node_indebted(b, finish_tag)
  end
  Settle.forget_node(b)
end

-- Every member is idle: virtual time rises to where the next to come would lift it.
function Settle.mark_node_indebted(b, finish_tag)
  local highest = call('ZRANGE', K.indebted(b.id), '-1', '-1', 'WITHSCORES')[2]
  b.virtual_time = Fairness.caught_up(b.virtual_time, nil, 0, tonumber(highest))
  -- One without a finish tag gets one: virtual time must not start again before it is forgotten.
  b.finish_tag = int(finish_tag or b.up.virtual_time)
  Order.mark_indebted(b, b)
end

function Settle.forget_node(b)
  Settle.unmark_idle(b, b)
  Order.set_state(b, 'idle')
  Records.update_share(b, b, true)
  if b.gone then return end
  call('HDEL', K.inner_nodes(), b.id)
  call('SREM', K.nodes_of_shared_limit(b.limit_key), b.id)
  Records.add_members(b.up, -1)
  b.gone = true -- not before: where the script fails, its record is written again
  Settle.shared_limit(b.limit_key)
end

-- A slot of a shared limit was taken or freed, or time has passed. Return why it is closed.
function Settle.shared_limit(key, goes_on)
  local shared, changed = SharedLimits.refresh(key)
  if changed or goes_on and shared.walk then
    Settle.nodes(SharedLimits.next_nodes(shared, changed))
    shared.has_gone_on = true
    SharedLimits.arm(shared)
  end
  return shared.block
end

function Settle.shared_limits(keys)
  for _, key in ipairs(keys) do Settle.shared_limit(key) end
end

function Settle.nodes(ids)
  for _, id in ipairs(ids) do
    if S.nodes[id] or call('HEXISTS', K.inner_nodes(), id) == 1 then
      Settle.upwards(Records.inner_node(id))
    end
  end
end

-- The weight or limit of a group was changed: many nodes are weighed page by page.
function Settle.group_changed(name)
  local ids = call('SMEMBERS', K.nodes_of_shared_limit('@' .. name))
  if #ids == 0 then return end
  Settle.shared_limit('@' .. name)
  if SharedLimits.are_many(ids) then
    Shard.load().drain = '0'
    return
  end
  table.sort(ids)
  Settle.nodes(ids)
end

-- A workspace joins, changes or leaves a group, as far as this call has steps. First its leases
-- take slots of the group that it joins ('>'). Then it is there, and its flows follow ('<'); one
-- whose turn comes before follows then, see select.lua. At last its leases give back their slots of
-- the group that it has left ('='). A group that is set meanwhile comes after that.
function Settle.change_group(ws, parent)
  if ws.has_moved then return end
  ws.move = ws.move or { stage = '>', group = parent or '', cursor = '0' }
  ws.has_moved, ws.dirty = true, true
  local move, left = ws.move, ws.parent
  if move.stage == '>' and SharedLimits.move_page('SADD', ws) then Settle.enter_group(ws, move) end
  if move.stage == '<' and Settle.move_flows(ws) then move.stage = '=' end
  if move.stage == '=' and SharedLimits.move_page('SREM', ws) then
    ws.move = parent ~= ws.parent and { stage = '>', group = parent or '', cursor = '0' } or nil
  end
  for _, group in ipairs({ left or '', ws.parent or '', move.group }) do
    if group ~= '' then Settle.shared_limit('@' .. group) end
  end
end

function Settle.enter_group(ws, move)
  local left = ws.parent or ''
  ws.parent = move.group ~= '' and move.group or nil
  move.stage, move.group = '<', left
  for _, flow in ipairs(ws.flows) do flow.is_behind = true end
  if ws.others then WorkspaceRecords.mark_all(ws.others) end
end

function Settle.move_flows(ws)
  local left = min(FLOWS_AT_ONCE, Shard.tick_steps_left())
  local has_more = ws.others and Follow.read_behind(ws, max(0, left))
  for _, flow in ipairs(ws.flows) do
    if flow.is_behind then
      if left < 1 then return false end
      left = left - 1
      Shard.took_steps(1)
      Settle.change_node(ws, flow)
    end
  end
  return not has_more
end

-- A flow moves to the node of its new group. It keeps what it has used too much, and no credit. The
-- node is read before, and the one that it leaves is settled behind: both may fail, and a node that
-- counted too few members would be forgotten under them.
function Settle.change_node(ws, flow)
  local node, finish_tag = Records.node(flow.node), Order.finish_tag_of(flow)
  local ahead = finish_tag and max(0, finish_tag - node.virtual_time)
  local id = flow.lane_key .. (ws.parent and '@' .. ws.parent or '')
  local joined = (ws.parent or flow.task) and Records.inner_node(id) or Records.node(id)
  Order.leave(ws, flow)
  Settle.unmark_idle(ws, flow)
  if node.up then Records.update_share(ws, flow, true) end
  Records.add_members(node, -1)
  flow.node, flow.up, flow.share, flow.finish_tag, flow.state = flow.lane_key, nil, nil, nil, 'idle'
  flow.is_behind, ws.dirty = nil, true
  if joined.up then Records.join_node(ws, flow) end
  if ahead then flow.finish_tag = int(joined.virtual_time + ahead) end
  Settle.upwards(node)
  if ahead and ahead > 0 then Order.mark_indebted(ws, flow) end
end
