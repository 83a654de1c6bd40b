-- Give a page of leases their slots of some tasks, before these get a limit.
-- ARGV now tasks cursor count
-- RETURNS {cursor}: 0 when all leases have theirs
local _, tasks, cursor, count = unpack(ARGV)

local wanted = {}
for task in gmatch(tasks, '%S+') do insert(wanted, task) end
local following_cursor, leases = unpack(call('HSCAN', K.leases(), cursor, 'COUNT', count))
SharedLimits.index(leases, wanted)
if following_cursor == '0' then SharedLimits.all_indexed(wanted) end
return { following_cursor }
