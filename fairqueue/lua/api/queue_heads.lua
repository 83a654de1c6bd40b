-- Tell this shard the present of these queues, and how they stand here, without a claim.
-- ARGV now queues times
-- RETURNS head,seen;... of each queue
local _, queues, times = unpack(ARGV)
local stands = Across.before(queues, times)
for _, stand in ipairs(stands) do
  stand.is_closed = not Limits.is_open(Records.node(stand.queue))
end
return Across.told(stands)
