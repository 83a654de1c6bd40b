-- Requeue expired leases, fire due timers and drop expired requests, a bounded number.
-- ARGV now max_deliveries
-- ROUTE all MERGE sum
-- RETURNS how many jobs were moved
local _, max_deliveries = unpack(ARGV)

call('ZREM', K.expiry(), '') -- frees first: see renew.lua
local n = RebuildJobs.twice(Tick.all, tonumber(max_deliveries))
DeadLetters.expire_oldest('')
RebuildPages.run()
local is_done, said = pcall(Requests.expire) -- no other call does so without web processes
if not is_done then Shard.set_aside('failure', 'requests', said) end
return n
