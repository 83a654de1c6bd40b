-- Jobs of a queue that wait or are scheduled; with running, also those that run.
-- ARGV now queue running
-- ROUTE all MERGE sum
-- RETURNS the number
-- WRITES nothing
local _, queue, running = unpack(ARGV)

return running == '1' and call('HLEN', K.jobs(queue)) or Lanes.depth_of(queue)
