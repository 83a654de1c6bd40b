-- Mark a workspace's provider limits as out of date: the next process that looks asks again.
-- ARGV now workspace
-- ROUTE workspace
-- RETURNS 1 if a provider was asked before, else 0
local _, name = unpack(ARGV)

if not call('ZSCORE', K.asked(), name) then return 0 end
call('ZADD', K.asked(), num(-now), name)
return 1
