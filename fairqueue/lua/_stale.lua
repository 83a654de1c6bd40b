-- COLD: who stands at the head and may not start after all, until it is settled.
local AT_ONCE = 256 -- jobs that go to their task's own lane in one step

function Stale.leaf_of(who)
  local flow
  while who and who.up do who, flow = Turn.of(who) end
  return who, flow
end

-- A limit was lowered, or the task of its next job has got a limit (or a pause), and so a lane of its own.
function Stale.is_so(ws, flow)
  if flow.task and Shared.lane_block(ws, flow) then return true end
  local node = flow.up
  while node and node.up do
    if Gates.block_of(Gates.of(node.gate)) then return true end
    node = node.up
  end
  return not flow.task and Stale.reroute(ws, flow)
end

-- With those of its task that follow it: else a task that is paused for its backlog held up the rest.
function Stale.reroute(ws, flow)
  local task, priority, moved = Means.next_task(ws, flow), match(flow.lanes, '^%d+'), {}
  if not Caps.of_task(task) then return false end
  local from, place = K.lane(ws.name, flow.place, priority), flow.queue .. '/' .. task
  for _, element in ipairs(call('LRANGE', from, 0, AT_ONCE - 1)) do
    if match(element, '^%d+') ~= task then break end
    insert(moved, element)
  end
  call('LPOP', from, #moved)
  Lanes.refresh(ws, flow, priority)
  Lanes.push(ws, Workspaces.flow_of(ws, place), priority, moved[1])
  if #moved > 1 then call('RPUSH', K.lane(ws.name, place, priority), unpack(moved, 2)) end
  return true
end
