-- Leases that end before their job is done: it goes back, is dead, or is lost.
function Return.back_to_lane(ws, l, deliveries, due)
  local flow, element = Workspaces.flow_of(ws, l.queue), l.task .. ':' .. l.id
  call('HSET', K.jobs(l.queue), l.id, Lease.job_text(l, deliveries, call('HGET', K.jobs(l.queue), l.id)))
  if due then Timer.schedule(ws, flow, l.priority, element, due) else Lanes.push(ws, flow, l.priority, element, true) end
end

function Return.bury(l, reason)
  local record = call('HGET', K.jobs(l.queue), l.id)
  call('HSET', K.dead(l.workspace), l.id, concat({ now_text, l.queue, reason, int(l.deliveries) }, ' ') .. '\n' .. record)
  call('SADD', K.dead_workspaces(), l.workspace)
  Ending.gone(l)
end

-- An early-acked job is not run again, as its user chose; it is counted as lost.
function Return.lose(l)
  Ending.gone(l)
  call('HINCRBY', K.lost(), l.workspace, 1)
end

function Return.expire(fence, max_deliveries)
  local l = Lease.drop(fence)
  local ws = Workspaces.of(l.workspace)
  Ending.true_up(ws, l, tonumber(l.ran))
  if l.early then Return.lose(l)
  elseif max_deliveries and l.deliveries >= max_deliveries then Return.bury(l, 'max_deliveries')
  else Return.back_to_lane(ws, l, l.deliveries) end
  Settle.workspace(ws)
end

function Return.release(fence, due, counted, seconds)
  local l = Lease.drop(fence)
  if not l then return false end
  local ws = Workspaces.of(l.workspace)
  Ending.true_up(ws, l, Fair.worker_seconds(seconds, now - l.claimed))
  if l.early then Ending.gone(l) else Return.back_to_lane(ws, l, l.deliveries - (counted and 0 or 1), due) end
  Settle.workspace(ws)
  return true
end

function Return.reject(fence, reason, seconds)
  local l = Lease.drop(fence)
  if not l then return false end
  local ws = Workspaces.of(l.workspace)
  Ending.true_up(ws, l, Fair.worker_seconds(seconds, now - l.claimed))
  Return.bury(l, reason)
  Settle.workspace(ws)
  return true
end
