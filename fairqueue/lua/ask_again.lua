-- What a provider said of a workspace may be old: who looks next asks again.
-- ARGV now workspace
-- RETURNS 1 if anybody has asked before, else 0
local _, name = unpack(ARGV)

if not call('ZSCORE', K.asked(), name) then return 0 end
call('ZADD', K.asked(), num(-now), name)
return 1
