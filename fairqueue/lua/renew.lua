-- Extend leases and charge what their jobs have used so far.
-- KEYS meta
-- ARGV now lease_seconds progress
-- RETURNS the fences that are lost, separated by spaces
local _, lease_seconds, progress = unpack(ARGV)
lease_seconds = tonumber(lease_seconds)

-- Charge upwards only: what a job will have used is not known before its end.
local function charge_so_far(fence, seconds)
  local l = Lease.at(fence)
  local ws = Workspaces.of(l.workspace)
  l.ran = Fair.worker_seconds(seconds, now - l.claimed)
  if l.ran > l.charged and not Limits.of(ws).count then
    Order.charge(ws, l.queue, l.ran - l.charged)
    l.charged = l.ran
  end
  Lease.keep(l)
end

-- The first write frees memory: a full Redis refuses a script only at a first write that grows.
call('ZREM', K.expiry(), '')
Sweep.is_away(lease_seconds)
local lost = {}
for fence, seconds in gmatch(progress, '(%d+):(%S+)') do
  if call('ZSCORE', K.expiry(), fence) then
    call('ZADD', K.expiry(), num(now + lease_seconds), fence)
    charge_so_far(fence, tonumber(seconds))
  else
    insert(lost, fence)
  end
end
Save.all()
return concat(lost, ' ')
