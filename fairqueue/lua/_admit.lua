-- What is let in: capacity, and groups that are admitted whole.
local GROUP_WINDOW_SECONDS = 3600 -- a group's jobs follow its first within this time of the last

function Admit.group_key(ago)
  return K.groups(int((now - now % GROUP_WINDOW_SECONDS) / GROUP_WINDOW_SECONDS - ago))
end

function Admit.admit(group)
  call('SADD', Admit.group_key(0), group)
  call('EXPIRE', Admit.group_key(0), 3 * GROUP_WINDOW_SECONDS)
end

function Admit.is_admitted(exempt, group)
  if exempt == '1' then return true end
  if group == '' then return false end
  return call('SISMEMBER', Admit.group_key(0), group) == 1 or call('SISMEMBER', Admit.group_key(1), group) == 1
end

function Admit.total_depth()
  local n = 0
  for _, queue in ipairs(call('HKEYS', K.nodes())) do n = n + Lanes.depth_of(queue) end
  return n
end

-- How fast a limited capacity drains, for who is refused.
function Admit.pace(at)
  at.pace, at.drained = num(Fair.pace_after(tonumber(at.pace), tonumber(at.drained), now)), now_text
end

function Admit.full(scope, limit, waiting, at)
  if waiting < limit then return nil end
  return { 2, scope, limit, waiting, at.pace, at.drained ~= '0' and num(now - at.drained) or '-1' }
end

-- The refusal of one more job, or nil.
function Admit.refusal(ws, queue, task)
  local node, own = Nodes.of(queue), Limits.of(ws)
  local limits, total = Limits.of_node(node)
  local full = own.capacity and Admit.full('workspace', own.capacity, Lanes.waiting_of(ws), ws)
    or limits.capacity and Admit.full('queue', limits.capacity, Lanes.depth_of(queue), node)
    or Caps.drains(task) and { 2, 'task', 0, 0, '0', '-1' }
    or total.capacity and Admit.full('total', total.capacity, Admit.total_depth(), node)
  if not full and own.would then Observed.publish(ws, queue) end
  return full or nil
end
