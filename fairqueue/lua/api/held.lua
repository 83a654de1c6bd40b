-- One page of the leases, counted by task or by owner.
-- ARGV now by cursor count
-- ROUTE all MERGE concat
-- RETURNS {now, cursor, row, ...}
-- by: task, or owner
-- row: "name n seen": of an owner when a lease of it was granted or renewed last, else 0
-- WRITES nothing
local _, by, cursor, count = unpack(ARGV)

local counted, seen, rows = {}, {}, { now_text, '' }

-- An owner renews all of its leases at once, so one of them tells when it did.
local function sign_of(fence, text)
  local l = LeaseRecords.parse(fence, text)
  local ends = Fairness.seconds(call('ZSCORE', K.expiry(), fence) or 0)
  return l and max(tonumber(l.claimed), ends - l.length) or 0
end

local following_cursor, found = unpack(call('HSCAN', K.leases(), cursor, 'COUNT', count))
rows[2] = following_cursor
for i = 1, #found, 2 do
  local task, owner = LeaseRecords.task_and_owner(found[i + 1])
  local name = by == 'task' and task or owner
  if name then
    counted[name] = (counted[name] or 0) + 1
    if by == 'owner' then seen[name] = seen[name] or sign_of(found[i], found[i + 1]) end
  end
end
for name, n in pairs(counted) do
  insert(rows, name .. ' ' .. int(n) .. ' ' .. num(seen[name] or 0))
end
return rows
