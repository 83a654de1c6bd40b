-- These failures are reported; the dead letters stay, those of cancelled jobs go.
-- ARGV now notices
-- ROUTE workspace MERGE own
-- RETURNS how many were not reported before
local _, notices = unpack(ARGV)

local n = 0
for queue, name, id in gmatch(notices, '(%S+):(%S+):(%S+)') do
  n = n + DeadLetters.drop_notice(queue, name, id)
end
return n
