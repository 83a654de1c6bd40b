-- How many more jobs the limits and rates of a workspace, a task or a node let start now. Nothing
-- here writes.

function Room.least(...)
  local found
  for i = 1, select('#', ...) do
    local n = select(i, ...)
    found = n and min(n, found or n) or found
  end
  return found
end

-- How many starts a rate allows at this moment.
function Room.starts_of(limits, tat)
  return limits.rate and max(0, math.floor(limits.burst - max(0, tat - now) * limits.rate + 1e-9))
end

function Room.of_workspace(ws)
  if S.room_of_workspace[ws.name] == nil then
    local limits = Limits.of_workspace(ws)
    local below = limits.concurrency and max(0, limits.concurrency - Limits.usage_of(ws))
    S.room_of_workspace[ws.name] =
      Room.least(below, Room.starts_of(limits, tonumber(ws.tat))) or false
  end
  return S.room_of_workspace[ws.name]
end

function Room.of_task(ws, flow)
  local limits = flow.task and Limits.of_task(flow.task)
  local most = limits and limits.workspace_concurrency
  return most and max(0, most - call('SCARD', K.slots(ws.name .. '/' .. flow.task)))
end

-- How many of a flow's jobs could start; its workspace's other flows have that much less.
function Room.take(ws, flow, jobs)
  local room = Room.of_workspace(ws)
  local startable = Room.least(jobs, room, Room.of_task(ws, flow))
  if room then S.room_of_workspace[ws.name] = room - startable end
  return startable
end

function Room.of_node(b)
  local limits = SharedLimits.limits_of(b.limit_key)
  if not limits then return nil end
  local used = limits.concurrency and call('SCARD', K.slots(b.limit_key))
  local shared = limits.rate and SharedLimitRecords.of(b.limit_key)
  return Room.least(used and max(0, limits.concurrency - used),
    shared and b.limit_key:sub(1, 1) ~= '@' and Room.starts_of(limits, shared.tat))
end
