-- The kind of a queue, as declared.
-- ARGV now queue
-- ROUTE there MERGE found
-- RETURNS "plain", "task", or "" if it was never declared
-- WRITES nothing
local _, queue = unpack(ARGV)

return Shard.kind_of(queue) or call('HEXISTS', K.shard(), 'queue:' .. queue) == 1 and 'task' or ''
