-- Import nothing from other systems' lists for some seconds; 0 ends that.
-- ARGV now seconds
-- ROUTE all MERGE told
-- FULL refused
-- RETURNS 1
local _, seconds = unpack(ARGV)

call('HSET', K.shard(), 'imports_suspended', num(now + seconds))
return 1
