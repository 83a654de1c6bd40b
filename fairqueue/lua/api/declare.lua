-- Remember a queue's kind: plain ones bypass the core.
-- ARGV now queue kind
-- ROUTE there MERGE told
-- RETURNS 1 if the kind is new or changed, else 0
local _, queue, kind = unpack(ARGV)

if call('HGET', K.kinds(), queue) == kind then return 0 end
call('HSET', K.kinds(), queue, kind)
return 1
