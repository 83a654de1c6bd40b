-- Whose turn it is in a node: a workspace and its flow, or a branch, which is its own flow.
-- Who stands there as this member, or has the lowest tag.
function Turn.head_of(node, member)
  member = member or call('ZRANGE', K.ready(node.id), 0, 0)[1]
  if not member then return nil end
  local name = member:sub(17)
  if node.forks and match(name, '[/@]') then return Branches.at(name), Branches.at(name) end
  local ws = Workspaces.of(name)
  return ws, Workspaces.flow_of(ws, node.place)
end

-- Who is below its reserve goes before all that are not.
function Turn.of(node)
  local member = call('ZRANGE', K.ready(node.id), 0, 0)[1]
  if not member then return nil end
  return Turn.head_of(node, Limits.any('reserves') and call('ZRANGE', K.first(node.id), 0, 0)[1] or member)
end

-- The flow whose turn it is in an open queue, never one that is blocked (a lowered limit).
function Turn.runnable(node)
  for _ = 1, Sweep.MOST do
    if not Limits.is_open(node) then return nil end
    local ws, flow = Turn.of(node)
    if ws and ws.up then ws, flow = Stale.leaf_of(ws) end
    if not ws or not (ws.expiring and Expiry.fire(ws, Sweep.MOST) > 0 or Settle.blocked(ws)
      or (flow.up or Limits.any('tasks')) and Stale.is_so(ws, flow)) then return ws, flow end
    Settle.workspace(ws)
  end
end
