-- How a job ends. Each true-up is worker-seconds minus what was charged.
local function gone(l)
  call('HDEL', K.jobs(l.queue), l.id)
  has_now_ended(l.id)
end

local function true_up(ws, l, seconds)
  if limits_of(ws).count then seconds = seconds == 0 and 0 or l.charged end
  charge(ws, l.queue, seconds - l.charged)
end

local function finish(fence, seconds)
  local l = drop(fence)
  if not l then return false end
  local ws = workspace(l.workspace)
  seconds = worker_seconds(seconds, now - l.claimed)
  gone(l)
  learn(ws, l.task, seconds)
  true_up(ws, l, max(seconds, FLOOR_SECONDS))
  settle(ws)
  return true
end

local function finish_early(fence)
  if not call('ZSCORE', K.expiry(), fence) then return false end
  local l = lease_at(fence)
  l.early = true
  keep_lease(l)
  return true
end

-- "fence:ending:seconds ..." as a claimer brings it; returns the fences that were lost.
local function finish_all(finishes)
  local lost = {}
  for fence, ending, seconds in gmatch(finishes, '(%d+):(%a+):(%S+)') do
    local done
    if ending == 'ack' then done = finish(fence, tonumber(seconds)) else done = finish_early(fence) end
    if not done then insert(lost, fence) end
  end
  return concat(lost, ' ')
end
