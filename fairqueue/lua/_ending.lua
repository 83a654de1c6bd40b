-- How a job ends. Each true-up is worker-seconds minus what was charged.
function Ending.gone(l)
  call('HDEL', K.jobs(l.queue), l.id)
  Ended.add(l.id)
end

function Ending.true_up(ws, l, seconds)
  if Limits.of(ws).fairness == 'count' and seconds ~= 0 then seconds = l.charged end
  Order.charge(ws, l.place, seconds - l.charged)
end

function Ending.finish(fence, seconds)
  local l = Lease.drop(fence)
  if not l then return false end
  local ws = Workspaces.of(l.workspace)
  seconds = Fair.worker_seconds(seconds, now - l.claimed)
  Ending.gone(l)
  Means.learn(ws, l.task, seconds)
  Ending.true_up(ws, l, max(seconds, Fair.FLOOR_SECONDS))
  Settle.workspace(ws)
  return true
end

function Ending.finish_early(fence)
  if not call('ZSCORE', K.expiry(), fence) then return false end
  local l = Lease.at(fence)
  l.early = true
  Lease.keep(l)
  return true
end

-- "fence:ending:seconds ..." as a claimer brings it; returns the fences that were lost.
function Ending.finish_all(finishes)
  local lost = {}
  for fence, ending, seconds in gmatch(finishes, '(%d+):(%a+):(%S+)') do
    local done
    if ending == 'ack' then done = Ending.finish(fence, tonumber(seconds)) else done = Ending.finish_early(fence) end
    if not done then insert(lost, fence) end
  end
  return concat(lost, ' ')
end
