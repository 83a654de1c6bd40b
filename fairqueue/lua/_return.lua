-- COLD: Leases that end before their job is done: it goes back, is dead, or is lost.
function Return.back_to_lane(ws, l, deliveries, due, how, seconds)
  local element = l.task .. ':' .. l.id
  local record = History.record_after(l, deliveries, how, seconds)
  local expires = Expiry.time_of(record)
  if expires then Expiry.add(ws, l.queue, l.priority, element, expires) end
  call('HSET', K.jobs(l.queue), l.id, record)
  if due then return Timer.schedule(ws, l.queue, l.priority, element, due) end
  Lanes.push(ws, Workspaces.flow_of(ws, Lanes.place_of(l.queue, l.task)), l.priority, element, true)
end

function Return.bury(l, reason, how, seconds, has_notice)
  local record = History.record_after(l, l.deliveries, how, seconds)
  Graves.add(l.workspace, l.queue, l.id, reason, l.deliveries, record, has_notice)
  Ending.gone(l)
end

-- An early-acked job is not run again, as its user chose; it is counted as lost.
function Return.lose(l)
  Ending.gone(l)
  call('HINCRBY', K.lost(), l.workspace, 1)
end

-- Its start counts: the last one that it has buries it.
function Return.counted(ws, l, max_deliveries, due, how, seconds)
  if max_deliveries and l.deliveries >= max_deliveries then
    return Return.bury(l, 'max_deliveries', how, seconds, true)
  end
  Return.back_to_lane(ws, l, l.deliveries, due, how, seconds)
end

function Return.expire(fence, max_deliveries)
  local l = Lease.drop(fence)
  local ws = Workspaces.of(l.workspace)
  Ending.true_up(ws, l, tonumber(l.ran))
  if l.early then Return.lose(l)
  elseif l.cancelled then Ending.gone(l)
  else Return.counted(ws, l, max_deliveries, nil, 'lost', tonumber(l.ran)) end
  Settle.workspace(ws)
end

function Return.release(fence, due, counted, seconds, max_deliveries, turned_away)
  local l = Lease.drop(fence)
  if not l then return false end
  local ws = Workspaces.of(l.workspace)
  seconds = Fair.worker_seconds(seconds, now - l.claimed)
  Ending.true_up(ws, l, seconds)
  if l.early or l.cancelled then Ending.gone(l)
  elseif counted then Return.counted(ws, l, max_deliveries, due, 'returned', seconds)
  else Return.back_to_lane(ws, l, l.deliveries - 1, due, turned_away and 'turned_away') end
  if due and turned_away then Wake.resign() end
  Settle.workspace(ws)
  return true
end

function Return.reject(fence, reason, seconds)
  local l = Lease.drop(fence)
  if not l then return false end
  local ws = Workspaces.of(l.workspace)
  seconds = Fair.worker_seconds(seconds, now - l.claimed)
  Ending.true_up(ws, l, seconds)
  if l.cancelled then Ending.gone(l) else Return.bury(l, reason, 'rejected', seconds) end
  Settle.workspace(ws)
  return true
end
