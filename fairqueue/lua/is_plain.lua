-- The kind of a queue as declared by anyone.
-- ARGV now queue
-- RETURNS "plain", "task", or "" if it was never declared
local _, queue = unpack(ARGV)

return call('HGET', K.kinds(), queue) or call('HEXISTS', K.nodes(), queue) == 1 and 'task' or ''
