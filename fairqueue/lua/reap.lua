-- Bring back expired leases and fire due timers, a bounded number.
-- USES state nodes limits wake fair lanes order means timer settle lease admit ending return away sweep save
-- KEYS meta
-- ARGV now lease_seconds max_deliveries
-- RETURNS how many jobs were moved
local _, lease_seconds, max_deliveries = unpack(ARGV)

call('ZREM', K.expiry(), '') -- frees first: see renew.lua
local n = sweep(tonumber(lease_seconds), tonumber(max_deliveries))
wake()
save()
return n
