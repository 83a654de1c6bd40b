-- A workspace's record, written again from its keys: its lanes, where it stands in the order, and
-- its timer. Other modules of this name do so for jobs, and for what the auditor has found. Truth
-- is jobs, leases, limits, dead letters and unique keys; all else is an index, which may be lost.
local COMPARED_AT_ONCE = 8 -- of many flows, those that one call compares
local USUAL = 9 -- priorities from 0 to this are looked for; others are found by their jobs

-- How many elements of a lane are holes by their marks.
function Rebuild.count_holes(name, lane_key, priority)
  local n, marks = 0, call('HGETALL', K.holes(name, lane_key, priority))
  for i = 1, #marks, 2 do
    local of_one = tonumber(match(marks[i + 1], '^%d+$') or nil)
    if not of_one then call('HDEL', K.holes(name, lane_key, priority), marks[i]) end
    n = n + (of_one or 0)
  end
  return n
end

-- A flow names this lane if it is there, and not otherwise. Return whether it is.
function Rebuild.lane(ws, lane_key, priority)
  local returned = K.returned(ws.name, lane_key, priority)
  local is_there = call('EXISTS', K.lane(ws.name, lane_key, priority), returned) > 0
  local flow = Records.flow(ws, lane_key, not is_there)
  if not flow then return false end
  if is_there then
    Lanes.mark_returned(ws, flow, priority, call('EXISTS', returned) == 1 and '+' or '')
  else
    flow.lanes, flow.first_task = Lanes.without(flow.lanes, priority), nil
    call('UNLINK', K.holes(ws.name, lane_key, priority))
  end
  local holes = is_there and Rebuild.count_holes(ws.name, lane_key, priority) or 0
  Lanes.count_holes(ws, flow, priority, holes - Lanes.holes_of(flow, priority))
  return is_there
end

-- Where this says that it stands, and the sets do not, it stands nowhere until it is settled.
function Rebuild.stand(entity, flow)
  local node, name = flow.node, entity.name
  if flow.up and flow.up.up and flow.up.members < 1 then Records.rejoin(flow) end -- it was lost
  if flow.state == 'idle_with_debt' then Order.mark_indebted(entity, flow) end
  if not flow.arrival then return end
  local member, tag = Order.member_of(entity, flow), tonumber(flow.tag)
  local has_reserved = flow.reserved or Limits.any('reserves')
  local reserved = has_reserved and call('ZSCORE', K.reserved(node), member)
  if flow.state == 'ready' and tag == tonumber(call('ZSCORE', K.ready(node), member) or nil)
    and tonumber(reserved or nil) == (flow.reserved and tag or nil) then return end
  Order.drop({ id = node }, member)
  flow.arrival, flow.reserved, entity.dirty = nil, nil, true
end

-- Compare the flows that were read of a workspace, and the nodes above them, with the sets. The
-- caller settles it.
function Rebuild.stands(ws)
  for _, flow in ipairs(ws.flows) do
    Rebuild.stand(ws, flow)
    local node = flow.up
    while node and node.up do
      Rebuild.stand(node, node)
      node = node.up
    end
  end
end

-- The same of all flows. Of many some are compared with each call, in the order of their lane keys:
-- those behind this one. Return the last of them; nil: these were all.
function Rebuild.next_stands(ws, from)
  local last = ws.others and Flows.read_next(ws, COMPARED_AT_ONCE, from)
  if last then ws.followed = (ws.followed or 0) + COMPARED_AT_ONCE end -- these are settled, too
  Rebuild.stands(ws)
  return last
end

-- Find the lanes, schedule and expiries of a workspace. The caller settles it.
function Rebuild.workspace(ws)
  Flows.read_all(ws)
  Rebuild.stands(ws)
  for _, flow in ipairs(ws.flows) do
    local lanes = flow.lanes
    flow.lanes = ''
    for priority in gmatch(lanes, '%d+') do Rebuild.lane(ws, flow.lane_key, priority) end
  end
  local tasks = call('HKEYS', K.indexed_tasks())
  for _, queue in ipairs(Shard.queues()) do
    for priority = 0, USUAL do
      Rebuild.lane(ws, queue, int(priority))
      for _, task in ipairs(tasks) do Rebuild.lane(ws, queue .. '/' .. task, int(priority)) end
    end
  end
  Timers.refresh_scheduled(ws)
  Timers.refresh_expiring(ws)
  call('ZREM', K.timer(), ws.name)
  -- not before: an error stops it half-way
  ws.timer, ws.is_unread, ws.dirty, ws.waits = nil, false, true, true
end

-- The running job of a fence whose lease has no record, or one that cannot be read, as its lease;
-- nil: no job of any queue has this fence.
function Rebuild.lost_lease(fence)
  for _, queue in ipairs(Shard.queues()) do
    local running = call('HGETALL', K.slots_of_queue(queue))
    for i = 1, #running, 2 do
      if running[i + 1] == fence then return Rebuild.as_lease(fence, queue, running[i]) end
    end
  end
end

function Rebuild.as_lease(fence, queue, id)
  local record = Jobs.read(queue, id)
  local deliveries = Jobs.deliveries_of(record)
  if not deliveries then
    call('HDEL', K.slots_of_queue(queue), id)
    return nil
  end
  local name, task, priority = Jobs.identity_of(record)
  return { fence = fence, lane_key = Lanes.key_of(queue, task), queue = queue, id = id,
    workspace = name, task = task, priority = priority, charged = '0', claimed = now_text,
    ran = '0', owner = '-', early = false, deliveries = deliveries + 1,
    length = '0', ended = now_text }
end
