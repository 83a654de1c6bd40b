-- Settle the next workspaces that a changed default, or a task's limit or pause, may concern.
-- ARGV now
-- ROUTE all MERGE told
-- RETURNS 1 if there are more, else 0
if Shard.load().drain == '-' then return 0 end
Tick.drain_change()
return Shard.load().drain == '-' and 0 or 1
