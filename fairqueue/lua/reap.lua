-- Requeue expired leases, fire due timers and drop expired requests, a bounded number.
-- ARGV now max_deliveries
-- ROUTE all MERGE sum
-- RETURNS how many jobs were moved
local _, max_deliveries = unpack(ARGV)

call('ZREM', K.expiry(), '') -- frees first: see renew.lua
local done, n = pcall(Sweep.all, tonumber(max_deliveries), Rescue.go_on)
if not done then
  Rescue.go_on(n)
  n = Sweep.all(tonumber(max_deliveries), Rescue.go_on)
end
DeadLetters.expire_oldest()
Cleanup.run()
local is_done, said = pcall(Requests.expire) -- no other call does so without web processes
if not is_done then Shard.set_aside('failure', 'requests', Rescue.text_of(said)) end
return n
