-- Store limits that concern all shards on one that is new, or that is not the only one any more.
-- ARGV now rows
-- RETURNS 1
-- rows: see Moves.put
local _, rows = unpack(ARGV)

local tasks = {}
for task in gmatch('\n' .. rows, '\nlimits %a+:task:(%S+)') do insert(tasks, task) end
SharedLimits.not_indexed(tasks) -- a new shard has no leases
Moves.put(rows)
Shard.load().drain = '0'
Wakeups.touch_all()
return 1
