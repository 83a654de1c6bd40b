-- Let publishes ask from now on whether their workspace has come here, or left, for its parent.
-- ARGV now
-- RETURNS 1
Shard.load().spread = ' spread ' -- so that requests ask, too
call('HSET', K.limits(), 'forwards', 1)
call('HDEL', K.tasks(), '#plain') -- see publish.lua
return 1
