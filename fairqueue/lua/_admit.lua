-- What is let in: capacity, groups admitted whole, and ids that ended a moment ago.
local ENDED_WINDOW_SECONDS = 60 -- a repeated publish of an ended id is known for at least this long
local GROUP_WINDOW_SECONDS = 3600 -- a group's jobs follow its first within this time of the last

function Admit.window(seconds, ago)
  return format('%.0f', (now - now % seconds) / seconds - ago)
end

function Admit.has_ended(id)
  return call('SISMEMBER', K.ended(Admit.window(ENDED_WINDOW_SECONDS, 0)), id) == 1
    or call('SISMEMBER', K.ended(Admit.window(ENDED_WINDOW_SECONDS, 1)), id) == 1
end

function Admit.remember(key, member, seconds)
  call('SADD', key, member)
  call('EXPIRE', key, 3 * seconds)
end

function Admit.has_now_ended(id)
  Admit.remember(K.ended(Admit.window(ENDED_WINDOW_SECONDS, 0)), id, ENDED_WINDOW_SECONDS)
end

function Admit.admit(group)
  Admit.remember(K.groups(Admit.window(GROUP_WINDOW_SECONDS, 0)), group, GROUP_WINDOW_SECONDS)
end

function Admit.is_admitted(exempt, group)
  if exempt == '1' then return true end
  if group == '' then return false end
  return call('SISMEMBER', K.groups(Admit.window(GROUP_WINDOW_SECONDS, 0)), group) == 1
    or call('SISMEMBER', K.groups(Admit.window(GROUP_WINDOW_SECONDS, 1)), group) == 1
end

function Admit.total_depth()
  local n = 0
  for _, queue in ipairs(call('HKEYS', K.nodes())) do n = n + Lanes.depth_of(queue) end
  return n
end

-- The refusal of one more job, or nil. The new job's record is already counted in its queue.
function Admit.refusal(ws, queue)
  local function full(scope, limit, waiting, at)
    if limit and waiting >= limit then return { 2, scope, limit, waiting, num(at.pace), num(at.drained > 0 and now - at.drained or -1) } end
  end
  local node, own = Nodes.of(queue), Limits.of(ws)
  local limits, total = Limits.of_node(node)
  return own.capacity and full('workspace', own.capacity, Lanes.waiting_of(ws), ws)
    or limits.capacity and full('queue', limits.capacity, Lanes.depth_of(queue) - 1, node)
    or total.capacity and full('total', total.capacity, Admit.total_depth() - 1, node)
    or nil
end
