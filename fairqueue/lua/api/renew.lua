-- Extend leases and charge what their jobs have used so far.
-- ARGV now owner lease_seconds progress
-- ROUTE fence MERGE own
-- RETURNS the fences that are lost, those of cancelled jobs, those that could not be renewed, and
-- with others the limits wider than a shard that count their jobs, as
-- "fence fence|fence|fence|fence=limit,limit"
local _, owner, lease_seconds, progress = unpack(ARGV)
local lost, cancelled, failed, wide, renewed, last_error = {}, {}, {}, {}, 0, nil

-- Charges only grow here: what a job will have used is not known before its end.
local function charge(l, ran)
  local ws = Records.workspace(l.workspace)
  if ran > tonumber(l.charged) and Limits.of_workspace(ws).fairness ~= 'count' then
    Order.charge(ws, l.lane_key, ran - l.charged)
    l.charged = int(ran)
  end
end

local function note_failure(fence, said)
  last_error = said
  Shard.set_aside('failure', 'lease ' .. fence, said)
end

-- The charge can wait: where it fails the lease is extended all the same.
local function extend(l, seconds)
  local ran = Leases.worked(l, seconds)
  local done, said = pcall(charge, l, ran)
  if not done then note_failure(l.fence, said) end
  l.ran, l.length, l.ended = int(ran), lease_seconds, nil
  LeaseRecords.save(l)
  call('ZADD', K.expiry(), Leases.end_of(lease_seconds), l.fence)
end

local function renew(fence, seconds)
  local l = Leases.held(fence, owner)
  if not l then return insert(lost, fence) end
  if l.cancelled then insert(cancelled, fence) end
  extend(l, tonumber(seconds))
  renewed = renewed + 1
  local limits = Permits.needed(l.queue, l.task)
  if limits then insert(wide, fence .. '=' .. limits) end
end

Tick.beat()
for fence, seconds in gmatch(progress, '(%d+):(%S+)') do
  local done, said = pcall(renew, fence, seconds)
  if not done then
    insert(failed, fence)
    note_failure(fence, said)
  end
end
-- One lease that fails stops no other. If all do, it is not the lease.
if #failed > 0 and renewed == 0 then error(last_error, 0) end
return concat({ concat(lost, ' '), concat(cancelled, ' '), concat(failed, ' '), concat(wide, ' ') },
  '|')
