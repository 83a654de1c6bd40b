-- Requeue expired leases and fire due timers, a bounded number.
-- ARGV now max_deliveries
-- RETURNS how many jobs were moved
local _, max_deliveries = unpack(ARGV)

call('ZREM', K.expiry(), '') -- frees first: see renew.lua
local n = Sweep.all(tonumber(max_deliveries))
DeadLetters.expire_oldest()
return n
