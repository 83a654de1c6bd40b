-- COLD: a workspace joins or leaves a group, and its flows and slots with it.
function Groups.join(ws, parent)
  local old = ws.parent
  ws.parent, ws.dirty = parent, true
  for _, flow in ipairs(ws.flows) do Groups.move(ws, flow) end
  local fences = call('SMEMBERS', K.slots_of_workspace(ws.name))
  for _, key in ipairs({ old and '@' .. old or false, parent and '@' .. parent or false }) do
    if key then
      local change = parent and key == '@' .. parent and 'SADD' or 'SREM'
      for _, fence in ipairs(fences) do call(change, K.slots_of_gate(key), fence) end
      Gates.look(key)
    end
  end
end

-- It stands in the other group's node with what was used too much, without any credit.
function Groups.move(ws, flow)
  local node, finish = Nodes.of(flow.node), Order.finish_of(ws, flow)
  local ahead = finish and max(0, tonumber(finish) - node.v)
  Order.leave(ws, flow)
  call('ZREM', K.finish(flow.node), ws.name)
  if flow.state == 'rest' then call('ZREM', K.resting(flow.node), ws.name) end
  if flow.up then Branches.after(ws, flow, false) end
  flow.node, flow.up, flow.share, flow.finish, flow.state = flow.place, nil, nil, nil, 'idle'
  if ws.parent or flow.task then
    Branches.hang(ws, flow)
    Branches.add_member(flow.up, 1)
  end
  if ahead then Order.set_finish(ws, flow, num(Nodes.of(flow.node).v + ahead)) end
end

-- Its weight or its limit is another: its branches stand elsewhere, close or open.
function Groups.change(name)
  if call('EXISTS', K.branches_of_gate('@' .. name)) == 0 then return end
  Gates.look('@' .. name)
  Gates.settle('@' .. name)
end
