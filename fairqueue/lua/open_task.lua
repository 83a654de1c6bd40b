-- A task whose limit is wider than a shard may go on here: it has its turn at the limit's home.
-- ARGV now task
-- RETURNS 1
local _, task = unpack(ARGV)
local number = Shard.known_task(task)
if number then
  SharedLimitRecords.of('/' .. number).tat = 0
  Settle.shared_limit('/' .. number)
end
return 1
