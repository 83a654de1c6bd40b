-- Cancel a page of a workspace's running jobs: their workers see the signal when they renew.
-- ARGV now workspace cursor count
-- ROUTE workspace
-- RETURNS {cursor, cancelled}
local _, name, cursor, count = unpack(ARGV)

local following_cursor, fences =
  unpack(call('SSCAN', K.slots(name), cursor, 'COUNT', count))
local n = 0
for _, fence in ipairs(fences) do
  local l = LeaseRecords.read(fence)
  if l and Leases.cancel(l) then n = n + 1 end
end
return { following_cursor, n }
