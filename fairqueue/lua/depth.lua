-- Jobs of a queue that wait or are scheduled; with running, those that run as well.
-- ARGV now queue running
-- RETURNS the number
local _, queue, running = unpack(ARGV)

return running == '1' and call('HLEN', K.jobs(queue)) or Lanes.depth_of(queue)
