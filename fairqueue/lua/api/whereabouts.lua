-- Whether a workspace has left this shard, since the number of shards changes, and where to.
-- ARGV now workspace to
-- RETURNS what `moved` says of it, see moves.lua; empty: it is here
-- to: where it goes. Of one that is not known here it is decided now: it has moved.
local _, name, to = unpack(ARGV)

local function is_known()
  local configured = call('HGET', K.limits(), Moves.field('configured', name))
  return configured and find(configured, 'parent=', 1, true) or Moves.is_known(name)
    or call('EXISTS', K.dead_letters('!!' .. name)) == 1
end

local at, all_have_moved = unpack(call('HMGET', K.moved(), name, '!'))
if at then return at end
if call('HEXISTS', K.limits(), 'moves') == 0 or is_known() then return '' end
-- keys of jobs that have ended may be left here
if not all_have_moved and call('HLEN', K.unique()) > 0 then return '' end
call('HSET', K.moved(), name, to)
return to
