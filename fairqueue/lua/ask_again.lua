-- What a provider said of a workspace may be old: who looks next asks again.
-- ARGV now workspace older_seconds
-- RETURNS 1 if anybody has asked before, else 0
local _, name, older_seconds = unpack(ARGV)

if not call('ZSCORE', K.asked(), name) then return 0 end
call('ZADD', K.asked(), 'LT', num(now - older_seconds), name)
return 1
