-- Whose turn it is in an open queue: the head of its order, unless it must be settled first.
local AT_ONCE = 256 -- jobs that go to their task's own lane in one step

-- A flow that is below its reserve goes before all that are not.
function Select.head_of(node, member)
  member = member or call('ZRANGE', K.ready(node.id), '0', '0')[1]
  if not member then return nil end
  local first = Limits.any('reserves') and call('ZRANGE', K.reserved(node.id), '0', '0')[1]
  member = first or member
  local entity, flow = Order.head_of(node, member)
  if flow.arrival and Order.member_of(entity, flow) == member then return entity, flow end
  return Select.drop_stray(node, member, entity, flow)
end

-- The flow whose turn it is, whose first job may start now. nil: there is none, or more flows stand
-- before it than one call passes. Each of these leaves its order, so that the next call goes on.
function Select.runnable(queue)
  local ready = K.ready(queue)
  local member = call('ZRANGE', ready, '0', '0')[1]
  if not member then return nil end
  local node = Records.register(queue)
  while member and Limits.is_open(node) do
    local entity, flow = Select.head_of(node, member)
    if not entity then return nil end
    if entity.up then entity, flow = Select.leaf_of(entity) end
    if entity and Select.may_start(entity, flow) then return entity, flow end
    if not Shard.take_look() then return nil end
    member = call('ZRANGE', ready, '0', '0')[1]
  end
end

-- The queues that have runnable work. A queue that has none must not lend its turn to a neighbour.
function Select.candidates(queues, kind)
  local found = {}
  for _, queue in ipairs(queues) do
    if call('EXISTS', kind(queue)) == 1 then insert(found, queue) end
  end
  return found
end

local function was_served_before(one, other)
  local a, b = tonumber(Records.node(one).last_fence), tonumber(Records.node(other).last_fence)
  return a < b or a == b and one < other
end

-- The queue that was served longest ago is next, whichever claimer served it.
function Select.turn_of(queues)
  table.sort(queues, was_served_before)
  for _, queue in ipairs(queues) do
    local ws, flow = Select.runnable(queue)
    if ws then return ws, flow end
  end
end

-- The flow whose turn it is in these queues.
function Select.next_of(queues)
  if #queues == 1 then return Select.runnable(queues[1]) end
  if Limits.any('reserves') then
    local ws, flow = Select.turn_of(Select.candidates(queues, K.reserved))
    if ws then return ws, flow end
  end
  return Select.turn_of(Select.candidates(queues, K.ready))
end

-- Whether the first job of a flow may start. Else the workspace is settled again: a limit may have
-- been lowered since then, or the first jobs have expired.
function Select.may_start(ws, flow)
  S.at_work = { ws = ws, flow = flow }
  local has_changed = (flow.holes or ws.expiring or Limits.any('tasks')) and Select.clear(ws, flow)
  if not (has_changed or flow.lanes == '' or flow.is_behind or Limits.block_of(ws)
    or flow.up and Select.is_closed(ws, flow)) then return true end
  if flow.is_behind then Settle.change_node(ws, flow) end
  Settle.workspace(ws)
  return false
end

-- A member of a ready set that its record does not name, as after the record was lost: it goes, and
-- what waits behind it is found again.
function Select.drop_stray(node, member, entity, flow)
  Order.drop(node, member)
  if entity.flows then
    entity.is_unread = true -- until it is settled: an error may come before
    Settle.workspace(entity)
  else
    Rebuild.stand(entity, entity)
    Settle.upwards(entity)
  end
  if Shard.take_look() then return Select.head_of(node) end
end

-- The workspace and its flow whose turn it is in an inner node.
function Select.leaf_of(entity)
  local flow
  while entity and entity.up do
    local node = entity
    entity, flow = Select.head_of(node)
    if not entity then Settle.upwards(node) end
  end
  return entity, flow
end

-- A shared limit of a node above was lowered, or a limit of its task in this workspace.
function Select.is_closed(ws, flow)
  if flow.task and SharedLimits.task_block(ws, flow) then return true end
  local node = flow.up
  while node and node.up do
    if SharedLimits.block_of(SharedLimitRecords.of(node.limit_key)) then return true end
    node = node.up
  end
end

-- What may not start is taken from the head of a ready flow. If this call has not the steps for it,
-- the flow is put off, and its workspace's timer goes on. Return whether the workspace must be
-- settled.
function Select.clear(ws, flow, keeps_expired)
  local is_clear, has_changed = Select.clear_head(ws, flow, keeps_expired)
  if not is_clear then Order.put_off(ws, flow) end
  return has_changed or not is_clear
end

-- Take from the head of a flow: holes, jobs that have expired, and jobs whose task has got a limit
-- (or a pause), and so a lane of its own. Return whether a job stands there now that is none of
-- these, and whether jobs were taken.
function Select.clear_head(ws, flow, keeps_expired)
  local has_changed = false
  while flow.lanes ~= '' do
    if not Lanes.reach_job(ws, flow) then return false, has_changed end
    local is_expired = not keeps_expired and Removal.is_first_expired(ws, flow)
    local task = not flow.task and Limits.any('tasks') and Lanes.first_task(ws, flow)
    if not (is_expired or task and Limits.of_task(task)) then break end
    if Shard.is_spent() then return false, has_changed end
    has_changed = true
    if is_expired then
      Removal.expired(ws, Shard.steps_left())
    else
      Select.reroute(ws, flow, task)
    end
  end
  return true, has_changed
end

-- The first job goes to its task's own lane, together with those of its task that follow it:
-- otherwise a task that is paused for its backlog would hold up the rest.
function Select.reroute(ws, flow, task)
  local priority, moved = match(flow.lanes, '^%d+'), {}
  Shard.took_steps(1)
  local from, lane_key = K.lane(ws.name, flow.lane_key, priority), flow.queue .. '/' .. task
  if Lanes.has_returned(flow, priority) then
    return Lanes.move_returned(ws, flow, priority, Records.flow(ws, lane_key), AT_ONCE)
  end
  for _, element in ipairs(call('LRANGE', from, 0, AT_ONCE - 1)) do
    if Jobs.task_of(element) ~= task then break end
    insert(moved, element)
  end
  local taken = #moved
  moved = Lanes.without_holes(ws, flow, priority, moved)
  call('LPOP', from, taken)
  Jobs.take(ws.name, flow.queue, priority, moved)
  Lanes.tidy(ws, flow, priority)
  if moved[1] then Lanes.push(ws, Records.flow(ws, lane_key), priority, moved[1]) end
  if #moved > 1 then call('RPUSH', K.lane(ws.name, lane_key, priority), unpack(moved, 2)) end
end
