-- Bring back expired leases and fire due timers, a bounded number.
-- ARGV now lease_seconds max_deliveries
-- RETURNS how many jobs were moved
local _, lease_seconds, max_deliveries = unpack(ARGV)

call('ZREM', K.expiry(), '') -- frees first: see renew.lua
local n = Sweep.all(tonumber(lease_seconds), tonumber(max_deliveries))
Graves.fade_all()
Wake.all()
Save.all()
return n
