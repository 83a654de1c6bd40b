-- Jobs of a queue that wait or are scheduled.
-- USES state nodes lanes
-- KEYS meta
-- ARGV now queue
-- RETURNS the number
local _, queue = unpack(ARGV)

return depth_of(queue)
