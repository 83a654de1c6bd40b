-- Extend leases and charge what their jobs have used so far.
-- ARGV now owner lease_seconds progress
-- ROUTE fence MERGE own
-- RETURNS the fences that are lost, those of cancelled jobs, those that could not be renewed, and
-- with others the limits wider than a shard that count their jobs, as
-- "fence fence|fence|fence|fence=limit,limit"
local _, owner, lease_seconds, progress = unpack(ARGV)
local fences, seconds, records, ends = {}, {}, {}, {}
local lost, cancelled, failed, wide, last_error = {}, {}, {}, {}, nil

local function note_failure(fence, said)
  last_error = said
  Shard.set_aside('failure', 'lease ' .. fence, said)
end

-- Charges only grow here: what a job will have used is not known before its end. Return what it is
-- charged now.
local function charge(lane_key, name, ran, charged)
  local ws = Records.workspace(name)
  if Limits.of_workspace(ws).fairness == 'count' then return charged end
  Order.charge(ws, lane_key, ran - charged)
  return ran
end

-- One loop, since each call for each lease would cost as much as a command.
Tick.beat()
for fence, used in gmatch(progress, '(%d+):(%S+)') do
  fences[#fences + 1], seconds[#seconds + 1] = fence, used
end
local texts = fences[1] and call('HMGET', K.leases(), unpack(fences))
local is_spread, lease_end = Shard.is_spread(), int(Fairness.microseconds(now + lease_seconds))
for i = #fences, 1, -1 do -- equal ends: a small sorted set takes them fastest from the last fence
  local fence, n = fences[i], #ends
  local job, lane_key, name, charged, claimed, holding, holder, marks =
    LeaseRecords.around_ran(texts[i])
  local since = tonumber(claimed or nil)
  if holder ~= owner then
    lost[#lost + 1] = fence
  elseif not (since and tonumber(charged)) then
    failed[#failed + 1] = fence
    note_failure(fence, texts[i])
  else
    local worked = max(0, min(seconds[i], now - since)) * 1000000 + 0.5
    local ran = format('%d', worked)
    if worked >= charged + 1 then
      local done, said = pcall(charge, lane_key, name, ran, charged)
      -- a charge can wait: the lease is extended
      if done then charged = said else note_failure(fence, said) end
    end
    records[n + 1], ends[n + 1] = fence, lease_end
    records[n + 2], ends[n + 2] =
      job .. charged .. ' ' .. claimed .. ' ' .. ran .. holding .. lease_seconds, fence
    if marks >= '2' then cancelled[#cancelled + 1] = fence end
    local limits = is_spread and Permits.needed(match(job, '^([^ /]+)%S* %S+ %S+ (%S+)'))
    if limits then wide[#wide + 1] = fence .. '=' .. limits end
  end
end
if ends[1] then
  LeaseRecords.put(unpack(records))
  call('ZADD', K.expiry(), unpack(ends))
elseif failed[1] then
  error(last_error, 0) -- if none can be renewed, it is not the lease
end
return concat({ concat(lost, ' '), concat(cancelled, ' '), concat(failed, ' '), concat(wide, ' ') },
  '|')
