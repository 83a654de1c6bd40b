-- Begin to move workspaces to another number of shards.
-- From now on publishes ask whether their workspace has moved.
-- ARGV now shards to
-- RETURNS 1
-- shards: how many there were, as a publish says it; empty: forget which have moved, since all
-- processes know it
-- to: how many there will be; from then on a publish that says neither is refused
local _, shards, to = unpack(ARGV)

if shards ~= '' then
  call('HSET', K.limits(), 'moves', shards, 'spread', to)
  call('HDEL', K.tasks(), '#plain') -- see publish.lua
else
  Moves.lift_all() -- a process that came late may have left some
  call('HDEL', K.limits(), 'moves')
  if call('HEXISTS', K.limits(), 'forwards') == 0 then call('UNLINK', K.moved()) end
end
return 1
