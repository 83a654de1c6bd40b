-- Leases that end before their job is done: it goes back, is dead, or is lost.
local function back_to_lane(ws, l, deliveries, due)
  local flow, element = flow_of(ws, l.queue), l.task .. ':' .. l.id
  call('HSET', K.jobs(l.queue), l.id, job_text(l, deliveries, call('HGET', K.jobs(l.queue), l.id)))
  if due then schedule(ws, flow, l.priority, element, due) else push(ws, flow, l.priority, element, true) end
end

local function bury(l, reason)
  local record = call('HGET', K.jobs(l.queue), l.id)
  call('HSET', K.dead(l.workspace), l.id, concat({ num(now), l.queue, reason, num(l.deliveries) }, ' ') .. '\n' .. record)
  call('SADD', K.dead_workspaces(), l.workspace)
  gone(l)
end

-- An early-acked job is not run again, as its user chose; it is counted as lost.
local function lose(l)
  gone(l)
  call('HINCRBY', K.lost(), l.workspace, 1)
end

local function expire(fence, max_deliveries)
  local l = drop(fence)
  local ws = workspace(l.workspace)
  true_up(ws, l, l.ran)
  if l.early then lose(l)
  elseif max_deliveries and l.deliveries >= max_deliveries then bury(l, 'max_deliveries')
  else back_to_lane(ws, l, l.deliveries) end
  settle(ws)
end

local function release(fence, due, counted, seconds)
  local l = drop(fence)
  if not l then return false end
  local ws = workspace(l.workspace)
  true_up(ws, l, worker_seconds(seconds, now - l.claimed))
  if l.early then gone(l) else back_to_lane(ws, l, l.deliveries - (counted and 0 or 1), due) end
  settle(ws)
  return true
end

local function reject(fence, reason, seconds)
  local l = drop(fence)
  if not l then return false end
  local ws = workspace(l.workspace)
  true_up(ws, l, worker_seconds(seconds, now - l.claimed))
  bury(l, reason)
  settle(ws)
  return true
end
