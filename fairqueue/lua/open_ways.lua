-- Workspaces may come to this shard, or leave it, because of their parents: from now on publishes
-- ask whether theirs has.
-- ARGV now
-- RETURNS 1
Shard.write_when_full()
Shard.load().spread = ' spread ' -- so that requests ask, too
call('HSET', K.limits(), 'forwards', 1)
call('HDEL', K.tasks(), '#plain') -- see publish.lua
return 1
