-- What stands behind a record that is lost or cannot be read: the lanes of a workspace are found by
-- their keys, and a running job by the fence of its lease.
local MOST_READ = 1000 -- jobs of a queue that are looked at for their priorities
local COMPARED_AT_ONCE = 8 -- of many flows, those that one call compares
local USUAL = 9 -- priorities from 0 to this are looked for, whatever the records of jobs say

-- The priorities of a workspace's jobs of one queue, among those that are looked at. The record of
-- a job may be lost as well; a lane that is not found would swallow those that are published to it.
function Repair.priorities_of(name, queue)
  local priorities, cursor, n = {}, '0', 0
  for priority = 0, USUAL do priorities[int(priority)] = true end
  repeat
    local found
    cursor, found = unpack(call('HSCAN', K.jobs(queue), cursor, 'COUNT', 100))
    for i = 2, #found, 2 do
      local of, _, priority = Jobs.identity_of(found[i])
      if of == name and find(priority, '^%d+$') then priorities[priority] = true end
    end
    n = n + #found / 2
  until cursor == '0' or n >= MOST_READ
  return priorities
end

-- Whether this lane is there. Then the record names it from now on.
function Repair.lane(ws, lane_key, priority)
  local holes, marks = 0, call('HGETALL', K.holes(ws.name, lane_key, priority))
  for i = 2, #marks, 2 do holes = holes + marks[i] end
  local has_list = call('EXISTS', K.lane(ws.name, lane_key, priority)) == 1
  local has_returned = call('EXISTS', K.returned(ws.name, lane_key, priority)) == 1
  if not (has_list or has_returned) then return false end
  local flow = Records.flow(ws, lane_key)
  Lanes.mark_returned(ws, flow, priority, has_returned and '+' or '')
  Lanes.count_holes(ws, flow, priority, holes - Lanes.holes_of(flow, priority))
  return true
end

-- Where this says that it stands in a ready set, and it does not, it stands nowhere.
function Repair.stand(entity, flow)
  if flow.arrival and not call('ZSCORE', K.ready(flow.node), Order.member_of(entity, flow)) then
    flow.arrival, entity.dirty = nil, true
  end
end

-- Compare the flows that were read of a workspace, and the nodes above them, with the ready sets:
-- by Repair.stand, or by another function. The caller settles it.
function Repair.stands(ws, compare)
  compare = compare or Repair.stand
  for _, flow in ipairs(ws.flows) do
    compare(ws, flow)
    local node = flow.up
    while node and node.up do
      compare(node, node)
      node = node.up
    end
  end
end

-- The same of all flows. Of many some are compared with each call, in the order of their lane keys:
-- those behind this one. Return the last of them; nil: these were all.
function Repair.next_stands(ws, from)
  local last = ws.others and Flows.read_next(ws, COMPARED_AT_ONCE, from)
  if last then ws.followed = (ws.followed or 0) + COMPARED_AT_ONCE end -- these are settled, too
  Repair.stands(ws)
  return last
end

-- Find the lanes, schedule and expiries of a workspace that its record does not name. The caller
-- settles it.
function Repair.workspace(ws)
  Flows.read_all(ws)
  Repair.stands(ws)
  local tasks = call('HKEYS', K.indexed_tasks())
  for _, queue in ipairs(call('HKEYS', K.nodes())) do
    for priority in pairs(Repair.priorities_of(ws.name, queue)) do
      Repair.lane(ws, queue, priority)
      for _, task in ipairs(tasks) do Repair.lane(ws, queue .. '/' .. task, priority) end
    end
  end
  Timers.refresh_scheduled(ws)
  Timers.refresh_expiring(ws)
  call('ZREM', K.timer(), ws.name)
  ws.timer, ws.is_unread, ws.dirty = nil, false, true -- not before: an error stops it half-way
end

-- The running job of a fence whose lease has no record, or one that cannot be read, as its lease;
-- nil: no job of any queue has this fence.
function Repair.lease(fence)
  for _, queue in ipairs(call('HKEYS', K.nodes())) do
    local running = call('HGETALL', K.slots_of_queue(queue))
    for i = 1, #running, 2 do
      if running[i + 1] == fence then return Repair.lease_of(fence, queue, running[i]) end
    end
  end
end

function Repair.lease_of(fence, queue, id)
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
