-- Extend leases and charge what their jobs have used so far.
-- ARGV now owner lease_seconds progress
-- ROUTE fence MERGE own
-- RETURNS the fences that are lost, those of cancelled jobs, those that could not be renewed, and
-- with others the limits wider than a shard that count their jobs, as
-- "fence fence|fence|fence|fence=limit,limit"
local _, owner, lease_seconds, progress = unpack(ARGV)
local lost, cancelled, failed, wide, renewed, last_error = {}, {}, {}, {}, {}, nil

-- Charges only grow here: what a job will have used is not known before its end.
local function charge(l, ran)
  local ws = Records.workspace(l.workspace)
  if Limits.of_workspace(ws).fairness == 'count' then return end
  Order.charge(ws, l.lane_key, ran - l.charged)
  l.charged = int(ran)
end

local function note_failure(fence, said)
  last_error = said
  Shard.set_aside('failure', 'lease ' .. fence, said)
end

-- The charge can wait: where it fails the lease is extended all the same.
local function renew(each, text)
  local fence = each.fence
  local l = text and LeaseRecords.parse(fence, text)
  if not (l and l.owner == owner) then return insert(lost, fence) end
  local ran = Leases.worked(l, each.seconds)
  if ran > tonumber(l.charged) then
    local done, said = pcall(charge, l, ran)
    if not done then note_failure(fence, said) end
  end
  l.ran, l.length, l.ended = int(ran), lease_seconds, nil
  each.text, each.ends = LeaseRecords.text(l), Leases.end_of(lease_seconds)
  insert(renewed, each)
  if l.cancelled then insert(cancelled, fence) end
  local limits = Permits.needed(l.queue, l.task)
  if limits then insert(wide, fence .. '=' .. limits) end
end

Tick.beat()
local named = {}
for fence, seconds in gmatch(progress, '(%d+):(%S+)') do
  insert(named, { fence = fence, seconds = seconds, text = false, ends = false })
end
local texts = named[1] and LeaseRecords.read_all(named)
for i = #named, 1, -1 do -- equal ends: a small sorted set takes them fastest from the last fence
  local each = named[i]
  local done, said = pcall(renew, each, texts[i])
  if not done then
    insert(failed, each.fence)
    note_failure(each.fence, said)
  end
end
if renewed[1] then
  LeaseRecords.write_all(renewed)
  call('ZADD', K.expiry(), Words.of(renewed, 'ends', 'fence'))
end
-- One lease that fails stops no other. If all do, it is not the lease.
if #failed > 0 and #renewed == 0 then error(last_error, 0) end
return concat({ concat(lost, ' '), concat(cancelled, ' '), concat(failed, ' '), concat(wide, ' ') },
  '|')
