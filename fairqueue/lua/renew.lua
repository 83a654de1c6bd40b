-- Extend leases and charge what their jobs have used so far.
-- ARGV now lease_seconds progress
-- RETURNS the fences that are lost, and those of cancelled jobs, as "fence fence|fence"
local _, lease_seconds, progress = unpack(ARGV)
lease_seconds = tonumber(lease_seconds)

-- Charge upwards only: what a job will have used is not known before its end.
local function charge_so_far(fence, seconds)
  local l = Lease.at(fence)
  local ws = Workspaces.of(l.workspace)
  local ran = Fair.worker_seconds(seconds, now - l.claimed)
  if ran > tonumber(l.charged) and Limits.of(ws).fairness ~= 'count' then
    Order.charge(ws, l.place, ran - l.charged)
    l.charged = num(ran)
  end
  l.ran = num(ran)
  Lease.keep(l)
  return l
end

-- The first write frees memory: a full Redis refuses a script only at a first write that grows.
call('ZREM', K.expiry(), '')
Sweep.reapable_until(lease_seconds)
local lost, cancelled = {}, {}
for fence, seconds in gmatch(progress, '(%d+):(%S+)') do
  if call('ZSCORE', K.expiry(), fence) then
    call('ZADD', K.expiry(), Lease.ending(lease_seconds), fence)
    if charge_so_far(fence, tonumber(seconds)).cancelled then insert(cancelled, fence) end
  else
    insert(lost, fence)
  end
end
Save.all()
return concat(lost, ' ') .. '|' .. concat(cancelled, ' ')
