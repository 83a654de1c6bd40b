-- COLD: who stands at the head and may not start after all, until it is settled.
function Stale.leaf_of(who)
  local flow
  while who and who.up do who, flow = Order.head_of(who) end
  return who, flow
end

-- A limit was lowered, or the task of its next job has got a limit, and so a lane, of its own.
function Stale.is_so(ws, flow)
  if flow.task and Shared.lane_block(ws, flow) then return true end
  local node = flow.up
  while node and node.up do
    if Gates.block_of(Gates.of(node.gate)) then return true end
    node = node.up
  end
  return not flow.task and Stale.reroute(ws, flow)
end

function Stale.reroute(ws, flow)
  local task = Means.next_task(ws, flow)
  if not Caps.of_task(task) then return false end
  local element, priority = Lanes.pop(ws, flow)
  Lanes.push(ws, Workspaces.flow_of(ws, flow.queue .. '/' .. task), priority, element)
  return true
end
