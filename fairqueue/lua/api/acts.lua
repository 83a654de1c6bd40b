-- The last acts of operators.
-- ARGV now
-- ROUTE first
-- RETURNS the acts, one in a line, the newest first: its time, and what was done as JSON
-- WRITES nothing
return call('HGET', K.shard(), 'acts') or ''
