-- Jobs of a queue that wait or are scheduled.
-- ARGV now queue
-- RETURNS the number
local _, queue = unpack(ARGV)

return Lanes.depth_of(queue)
