-- Remember a queue's kind: plain ones bypass the core.
-- ARGV now queue kind
-- ROUTE there MERGE told
-- RETURNS 1 if the kind is new or changed, else 0
local _, queue, kind = unpack(ARGV)

local before = Shard.kind_of(queue)
call('HSET', K.shard(), 'kind:' .. queue, kind .. ' ' .. now_text)
return before == kind and 0 or 1
