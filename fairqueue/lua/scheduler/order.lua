-- The order of flows in a node: entering it with a tag, leaving it, moving by a charge or a weight;
-- what a job is expected to cost; and which flows go first because their workspace is below its
-- reserve. Only settle.lua calls Order.enter and Order.leave.
Order.ESTIMATES_KEPT = 16 -- tasks whose average duration a workspace keeps

function Order.member_of(entity, flow)
  return flow.arrival .. ':' .. entity.name
end

function Order.insert(entity, flow, tag)
  local member = Order.member_of(entity, flow)
  flow.tag = int(tag)
  call('ZADD', K.ready(flow.node), flow.tag, member)
  if flow.reserved then call('ZADD', K.reserved(flow.node), flow.tag, member) end
end

function Order.leave(entity, flow)
  if not flow.arrival then return end
  call('ZREM', K.ready(flow.node), Order.member_of(entity, flow))
  if flow.reserved then Order.set_reserved(entity, flow, false) end
  flow.arrival, flow.has_started = nil, nil
end

-- How far its next job moves its tag; 0: what that costs is not known.
function Order.stride(entity, flow)
  return flow.cost == '0' and 0 or Fairness.stride(flow.cost, entity.weight)
end

-- The tag of the last start; nil: none, or forgotten. One that is idle owes nothing, also where
-- virtual time has started again since.
function Order.finish_tag_of(flow)
  local finish_tag = tonumber(flow.finish_tag)
  if not finish_tag or flow.state ~= 'idle' then return finish_tag end
  return min(finish_tag, Records.node(flow.node).virtual_time)
end

-- Nothing waits here, and its finish tag is ahead of virtual time; while it is there, its flow is.
function Order.mark_indebted(entity, flow)
  local node, debt = Records.node(flow.node), flow.finish_tag
  call('ZADD', K.indebted(node.id), debt, entity.name)
  if not node.up and tonumber(debt) < node.least_debt then
    node.least_debt, node.dirty = tonumber(debt), true
  end
  Order.set_state(flow, 'idle_with_debt')
end

-- A flow that is held back or busy is in no set, but virtual time may have to catch up with it.
function Order.note_highest(flow)
  local node, finish_tag = Records.node(flow.node), tonumber(flow.finish_tag)
  if finish_tag and finish_tag > node.highest then
    node.highest, node.dirty = finish_tag, true
  end
end

-- A ready flow is put off: its finish tag says where it stood, in the nodes above as well, so that
-- it comes back there.
function Order.put_off(entity, flow)
  Order.set_state(flow, 'put_off')
  entity.waits = true
  flow.is_clear = nil -- it may have come back and started a job in this very call
  repeat
    local base = flow.arrival and flow.tag - Order.stride(entity, flow)
    if base then flow.finish_tag = int(base) end
    entity, flow = flow.up, flow.up
  until not (flow and flow.up)
end

function Order.set_state(flow, state)
  if flow.state == state then return end
  if flow.state == 'idle' and state ~= 'idle_with_debt' and flow.finish_tag then
    flow.finish_tag = int(Order.finish_tag_of(flow)) -- virtual time may have started again
  end
  flow.state, flow.since = state, now_text
end

-- The workspace or inner node that stands in a node as this member, or has the lowest tag, and its
-- flow. An inner node is its own flow.
function Order.head_of(node, member)
  member = member or call('ZRANGE', K.ready(node.id), '0', '0')[1]
  if not member then return nil end
  local name = sub(member, 17)
  if find(name, '[/@]') then -- no encoded name has these
    return Records.inner_node(name), Records.inner_node(name)
  end
  local ws = S.workspaces[name] or Records.workspace(name)
  local flow, is_new = ws.flows[1], nil
  if flow and flow.lane_key == node.lane_key then return ws, flow end
  flow, is_new = Records.flow(ws, node.lane_key)
  if is_new then ws.is_unread, ws.dirty = true, true end -- its record was lost
  return ws, flow
end

-- Since when a flow has been ready, and the nodes above it with it, in a queue that was not paused.
-- Starts do not change that.
function Order.runnable_since(flow)
  local since, resumed = flow.since, (S.nodes[flow.queue] or Records.node(flow.queue)).resumed
  while flow.up do
    flow = flow.up
    if flow.up and tonumber(flow.since) > tonumber(since) then since = flow.since end
  end
  if resumed ~= '' and tonumber(resumed) > tonumber(since) then since = resumed end
  return since
end

-- Where nothing is ready; nil: no flow is in debt, and the queue has only jobs that come now.
function Order.highest_finish_tag(node, coming)
  local debt = call('ZRANGE', K.indebted(node.id), '-1', '-1', 'WITHSCORES')[2]
  if debt or call('HLEN', K.jobs(node.queue)) > coming then return max(node.highest, debt or 0) end
  node.highest = 0
end

function Order.catch_up(node, coming)
  local head, entity, flow = call('ZRANGE', K.ready(node.id), '0', '0', 'WITHSCORES')
  local member, head_tag = head[1], tonumber(head[2])
  if member and head_tag <= node.virtual_time then return end -- it does not rise to less
  if member then entity, flow = Order.head_of(node, member) end
  local highest = not entity and Order.highest_finish_tag(node, coming)
  local tag, stride = entity and tonumber(flow.tag), entity and Order.stride(entity, flow)
  local virtual_time = Fairness.caught_up(node.virtual_time, tag, stride, highest or nil)
  local rises = virtual_time > node.virtual_time and node.id == node.queue
  local present = rises and Across.present(node.queue)
  if present then virtual_time = max(node.virtual_time, min(virtual_time, present)) end
  if virtual_time ~= node.virtual_time then node.virtual_time, node.dirty = virtual_time, true end
end

-- One that has started a job keeps its arrival, unless its cost was or is unknown: it comes behind
-- all of its tag.
function Order.enter(entity, flow, cost)
  if flow.up and flow.up.gone then Records.rejoin(flow) end
  local node, state = S.nodes[flow.node] or Records.node(flow.node), flow.state
  if state == 'idle' or state == 'idle_with_debt' or state == 'busy' or state == 'paused' then
    Order.catch_up(node, 1)
  end
  if state == 'idle_with_debt' then call('ZREM', K.indebted(flow.node), entity.name) end
  local finish_tag = Order.finish_tag_of(flow)
  if flow.arrival and (cost == 0 or flow.cost == '0') then Order.leave(entity, flow) end
  flow.has_started, flow.cost = nil, int(cost)
  if not flow.arrival then
    local meta = S.meta or Shard.load()
    meta.arrival = meta.arrival + 1
    flow.arrival = format('%015d', meta.arrival)
  end
  local stride = cost == 0 and 0 or Fairness.stride(cost, entity.weight)
  local base = Fairness.base_of(state, node.virtual_time, finish_tag, stride, node.max_stride)
  Order.insert(entity, flow, base + stride)
  if state ~= 'ready' then Order.set_state(flow, 'ready') end
  S.touched_queues[node.queue] = true
end

-- Move the finish tag, and the tag with it, by what was used more or less than charged.
function Order.charge(ws, lane_key, used)
  if used == 0 then return end
  local flow = Records.flow(ws, lane_key)
  if flow.up then Order.charge_levels(ws, flow, used) else Order.shift(ws, flow, used) end
end

-- While a lease lives there is a finish tag, unless the record was lost or the task's limit is new.
function Order.shift(entity, flow, used)
  local by, state = Fairness.whole(used / entity.weight), flow.state
  local node = S.nodes[flow.node] or Records.node(flow.node)
  local before = Order.finish_tag_of(flow) or node.virtual_time
  local finish_tag = before + by
  if by < 0 and before == node.highest then
    node.highest, node.dirty = max(node.virtual_time, finish_tag), true
  end
  flow.finish_tag, entity.dirty = int(finish_tag), true
  if flow.arrival then
    Order.insert(entity, flow, flow.tag + by)
  elseif state ~= 'idle' and state ~= 'idle_with_debt' then
    Order.note_highest(flow)
  elseif finish_tag > node.virtual_time then
    Order.mark_indebted(entity, flow)
  end
end

-- The newest stands last; of too many the oldest goes.
function Order.with_estimate(estimates, task, worked)
  local entry = ';' .. task .. '='
  local from, at = find(estimates, entry, 1, true)
  if from == 1 and not find(estimates, ';', at, true) then
    return entry .. int(worked)
  elseif from then
    estimates = estimates:sub(1, from - 1) .. match(estimates, '^[^;]*(.*)$', at + 1)
  else
    local _, kept = string.gsub(estimates, ';', ';')
    if kept >= Order.ESTIMATES_KEPT then estimates = match(estimates, '^;[^;]+(.*)$') end
  end
  return estimates .. entry .. int(worked)
end

-- The estimate of a task among those of a workspace; nil: it has none.
function Order.own_estimate(ws, task)
  if ws.known_task ~= task then
    local estimates = ws.duration_estimates
    local _, at = find(estimates, ';' .. task .. '=', 1, true)
    ws.known_task, ws.known = task, at and tonumber(match(estimates, '^[^;]+', at + 1))
  end
  return ws.known
end

function Order.record_duration(ws, task, worked)
  local estimate = Fairness.estimate_after(Order.own_estimate(ws, task), worked)
  ws.duration_estimates = Order.with_estimate(ws.duration_estimates, task, estimate)
  ws.known = estimate
  Tasks.record(task, worked)
end

-- The cost of a flow's next job; 0: not known, so the tag is the base.
function Order.cost_of(ws, flow)
  if Limits.of_workspace(ws).fairness == 'count' then return Fairness.COUNTED end
  local own = Order.own_estimate(ws, flow.first_task or Lanes.first_task(ws, flow))
  return own and max(own, Fairness.FLOOR) or 0
end

-- What a job that starts now is charged, and what it is guessed to take if its tag has no cost.
function Order.price(ws, flow, task)
  if flow.cost ~= '0' then return flow.cost end
  local own = Order.own_estimate(ws, task)
  local guess = max(own or Tasks.average_of(task), Fairness.FLOOR)
  return int(own and guess or Fairness.FLOOR), guess
end

-- Where a start moves virtual time: to its tag. A guess moves it to the next flow ahead of it at
-- most; with none, by what is charged.
function Order.reach(entity, flow, guess)
  local tag = tonumber(flow.tag)
  if flow.cost ~= '0' then return tag end
  local from = max(Records.node(flow.node).virtual_time, tag)
  local ahead = call('ZRANGEBYSCORE', K.ready(flow.node), '(' .. int(from), '+inf', 'WITHSCORES',
    'LIMIT', '0', '1')[2]
  if ahead then return min(tonumber(ahead), tag + Fairness.stride(guess, entity.weight)) end
  return max(from, tag + Fairness.stride(Fairness.FLOOR, entity.weight))
end

function Order.drop(node, member)
  call('ZREM', K.ready(node.id), member)
  call('ZREM', K.reserved(node.id), member)
end

-- A new weight rescales the distances from virtual time, as if old charges had been made under it.
function Order.reweigh(entity, flow, ratio)
  local virtual_time = Records.node(flow.node).virtual_time
  local finish_tag = Order.finish_tag_of(flow)
  if finish_tag then
    flow.finish_tag = int(Fairness.rescaled(finish_tag, virtual_time, ratio))
    local node = Records.node(flow.node)
    if finish_tag == node.highest then
      node.highest, node.dirty = max(virtual_time, tonumber(flow.finish_tag)), true
    end
    if flow.state == 'idle_with_debt' then Order.mark_indebted(entity, flow) end
  end
  if flow.arrival then
    Order.insert(entity, flow, Fairness.rescaled(flow.tag, virtual_time, ratio))
  end
end

-- What is used is charged at each level.
function Order.charge_levels(entity, flow, used)
  while true do
    Order.shift(entity, flow, used)
    entity, flow = flow.up, flow.up
    if not flow.up then return end
  end
end

-- Worker-seconds that a job of this task is expected to take in this workspace; 0: not known.
function Order.expected_seconds(ws, task)
  local own = Order.own_estimate(ws, task)
  return Fairness.seconds(own and max(own, Fairness.FLOOR) or Tasks.average_of(task))
end

-- Beside each ready set is an index of the flows that are below their reserve, with the same tags.
function Order.set_reserved(entity, flow, is_below)
  if (flow.reserved or false) == (is_below or false) then return end
  if is_below then
    call('ZADD', K.reserved(flow.node), flow.tag, Order.member_of(entity, flow))
  else
    call('ZREM', K.reserved(flow.node), Order.member_of(entity, flow))
  end
  flow.reserved = is_below or nil
end

-- An inner node goes first while one of its members does.
function Order.set_node_reserved(b)
  if b.reserved or Limits.any('reserves') then
    Order.set_reserved(b, b, Limits.any('reserves') and call('EXISTS', K.reserved(b.id)) == 1)
  end
end

-- Whether a flow starts before flows with lower tags. If so, virtual time stays: else it would pass
-- the flows that wait. The finish tag is charged as ever, but stays within a bound of virtual time,
-- or the workspace would pay for it without end; or within the next that goes first, or those that
-- share an overcommitted reserve would lose their order.
function Order.jumps(entity, node, flow, stride)
  local head = call('ZRANGE', K.ready(node.id), '0', '0')[1]
  if head == Order.member_of(entity, flow) then return false end
  local following = tonumber(call('ZRANGE', K.reserved(node.id), 0, 1, 'WITHSCORES')[4])
  local most = max(Fairness.farthest(node.virtual_time, stride, node.max_stride), following or 0)
  if tonumber(flow.tag) > most then flow.tag = int(most) end
  return true
end
