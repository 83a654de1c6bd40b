-- These failures are reported; the dead letters stay, those of cancelled jobs go.
-- ARGV now notices
-- ROUTE workspace MERGE own
-- RETURNS how many were not reported before
-- notices: "queue:workspace:id:died" of each
local _, notices = unpack(ARGV)

local n = 0
for queue, name, id, died in gmatch(notices, '(%S+):(%S+):(%S+):(%S+)') do
  n = n + DeadLetters.drop_notice(queue, name, id, died)
end
return n
