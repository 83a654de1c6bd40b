-- Begin to move workspaces to another number of shards.
-- From now on publishes ask whether their workspace has moved.
-- ARGV now shards to
-- RETURNS 1
-- shards: how many there were; 0: forget which have moved, since all processes know it
-- to: how many there will be; from then on a publish that knows neither number is refused
local _, shards, to = unpack(ARGV)

Shard.write_when_full()
if shards ~= '0' then
  call('HSET', K.limits(), 'moves', shards, 'spread', to)
  call('HDEL', K.tasks(), '#plain') -- see publish.lua
else
  Moves.lift_all() -- a process that came late may have left some
  call('HDEL', K.limits(), 'moves')
  call('UNLINK', K.moved())
end
return 1
