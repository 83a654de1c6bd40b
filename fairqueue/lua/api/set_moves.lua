-- Begin to move workspaces to another number of shards.
-- From now on publishes ask whether their workspace has moved.
-- ARGV now shards
-- RETURNS 1
-- shards: how many there were, as a publish says it; empty: forget which have moved, since all
-- processes know it; !: all have moved, also one that is not known here
local _, shards = unpack(ARGV)

Limits.forget()
if shards == '!' then
  call('HSET', K.moved(), '!', 1)
elseif shards ~= '' then
  call('HSET', K.limits(), 'moves', shards)
else
  call('HDEL', K.limits(), 'moves')
  call('HDEL', K.moved(), '!')
  if call('HEXISTS', K.limits(), 'forwards') == 0 then call('UNLINK', K.moved()) end
end
return 1
