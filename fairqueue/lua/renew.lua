-- Extend leases and charge what their jobs have used so far.
-- ARGV now owner lease_seconds progress
-- RETURNS the fences that are lost, and those of cancelled jobs, as "fence fence|fence"
local _, owner, lease_seconds, progress = unpack(ARGV)

-- Charges only grow here: what a job will have used is not known before its end.
local function extend(l, seconds)
  local ws = Records.workspace(l.workspace)
  local ran = Fairness.worker_seconds(seconds, now - l.claimed)
  if ran > tonumber(l.charged) and Limits.of_workspace(ws).fairness ~= 'count' then
    Order.charge(ws, l.lane_key, ran - l.charged)
    l.charged = num(ran)
  end
  l.ran, l.length, l.ended = num(ran), lease_seconds, nil
  call('ZADD', K.expiry(), Leases.end_of(lease_seconds), l.fence)
  LeaseRecords.save(l)
end

-- The first write frees memory: a full Redis refuses a script only at a first write that grows.
call('ZREM', K.expiry(), '')
Sweep.beat()
local lost, cancelled = {}, {}
for fence, seconds in gmatch(progress, '(%d+):(%S+)') do
  local l = Leases.held(fence, owner)
  if l then
    extend(l, tonumber(seconds))
    if l.cancelled then insert(cancelled, fence) end
  else
    insert(lost, fence)
  end
end
return concat(lost, ' ') .. '|' .. concat(cancelled, ' ')
