-- Whose turn it is in an open queue: the head of its order, unless it must be settled first.
local AT_ONCE = 256 -- jobs that go to their task's own lane in one step

-- A flow that is below its reserve goes before all that are not.
function Select.head_of(node)
  local member = call('ZRANGE', K.ready(node.id), 0, 0)[1]
  if not member then return nil end
  local first = Limits.any('reserves') and call('ZRANGE', K.reserved(node.id), 0, 0)[1]
  member = first or member
  local entity, flow = Order.head_of(node, member)
  if flow.arrival and Order.member_of(entity, flow) == member then return entity, flow end
  return Select.drop_stray(node, member, entity, flow)
end

-- The flow whose turn it is, never one that is blocked: a limit may have been lowered since it was
-- settled. nil: there is none, or to find it takes more steps than this call has left. Each call
-- settles one at least, so that the next ones come to the end.
function Select.runnable(node)
  while Limits.is_open(node) do
    local ws, flow = Select.head_of(node)
    if ws and ws.up then ws, flow = Select.leaf_of(ws) end
    Shard.at_work = ws and { ws = ws, flow = flow }
    if ws and flow.holes and not Lanes.reach_job(ws, flow) then return nil end
    if not ws or not (flow.lanes == ''
      or ws.expiring and Removal.expired(ws, max(1, Shard.steps_left())) > 0
      or flow.is_behind or Limits.block_of(ws)
      or (flow.up or Limits.any('tasks')) and Select.is_stale(ws, flow)) then
      return ws, flow
    end
    if flow.is_behind then Settle.change_node(ws, flow) end
    Settle.workspace(ws)
    if not Shard.take_step() then return nil end
  end
end

-- COLD
-- A member of a ready set that its record does not name, as after the record was lost: it goes, and
-- what waits behind it is found again.
function Select.drop_stray(node, member, entity, flow)
  Order.drop(node, member)
  if entity.flows then
    entity.is_unread = true -- until it is settled: an error may come before
    Settle.workspace(entity)
  end
  if not Shard.take_step() then return nil end
  return Select.head_of(node)
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

-- A shared limit was lowered, or the task of its next job has got a limit (or a pause), and so a
-- lane of its own.
function Select.is_stale(ws, flow)
  if flow.task and SharedLimits.task_block(ws, flow) then return true end
  local node = flow.up
  while node and node.up do
    if SharedLimits.block_of(SharedLimitRecords.of(node.limit_key)) then return true end
    node = node.up
  end
  return not flow.task and Select.reroute(ws, flow)
end

-- The first job goes to its task's own lane, together with those of its task that follow it:
-- otherwise a task that is paused for its backlog would hold up the rest.
function Select.reroute(ws, flow)
  local task, priority, moved = Lanes.first_task(ws, flow), match(flow.lanes, '^%d+'), {}
  if not Limits.of_task(task) then return false end
  local from, lane_key = K.lane(ws.name, flow.lane_key, priority), flow.queue .. '/' .. task
  if Lanes.has_returned(flow, priority) then
    Lanes.move_returned(ws, flow, priority, Records.flow(ws, lane_key), AT_ONCE)
    return true
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
  return true
end
