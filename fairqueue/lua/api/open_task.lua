-- A task whose limit is wider than a shard may go on here: it has its turn at the limit's home.
-- ARGV now task
-- RETURNS 1
local _, task = unpack(ARGV)
SharedLimitRecords.of('/' .. task).tat = 0
Settle.shared_limit('/' .. task)
return 1
