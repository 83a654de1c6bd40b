-- Whether a workspace has left this shard, since the number of shards changes, and where to.
-- ARGV now workspace to
-- RETURNS what `moved` says of it, see moves.lua; empty: it is here
-- to: where it goes. Of one that is not known here it is decided now: it has moved.
local _, name, to = unpack(ARGV)

local function has_rate()
  for _, task in ipairs(call('HKEYS', K.indexed_tasks())) do
    local tat = call('ZSCORE', K.task_rates(), name .. ':' .. task)
    if tat and tonumber(tat) > now then return true end
  end
end

local function is_known()
  local own = call('HMGET', K.limits(), Moves.field('live', name), Moves.field('provider', name),
    Moves.field('pause', name), Moves.field('configured', name))
  local has_parent = own[4] and find(own[4], 'parent=', 1, true)
  return own[1] or own[2] or own[3] or has_parent or call('HEXISTS', K.workspaces(), name) == 1
    or Moves.has_some(name) or call('EXISTS', K.dead_letters('!!' .. name)) == 1 or has_rate()
end

local at, all_have_moved = unpack(call('HMGET', K.moved(), name, '!'))
if at then return at end
if call('HEXISTS', K.limits(), 'moves') == 0 or is_known() then return '' end
-- keys of jobs that have ended may be left here
if not all_have_moved and call('HLEN', K.unique()) > 0 then return '' end
call('HSET', K.moved(), name, to)
return to
