-- These deaths have been told; the letters stay.
-- ARGV now notices
-- RETURNS how many were not told before
local _, notices = unpack(ARGV)

local n = 0
for queue, name, id in gmatch(notices, '(%S+):(%S+):(%S+)') do
  n = n + call('ZREM', K.untold(queue), name .. ' ' .. id)
end
return n
