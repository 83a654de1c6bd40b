-- settle() decides where a workspace stands, after every event that can change it.
-- No other code puts a flow into a ready set or takes one out (a claim that pops it settles next).
function Settle.usage_of(ws)
  return call('SCARD', K.slots_of_workspace(ws.name))
end

function Settle.blocked(ws)
  local limits = Limits.of(ws)
  if limits.paused then return 'paused' end
  if limits.rate and Fair.next_start(tonumber(ws.tat), limits.rate, limits.burst) > now + 1e-9 then return 'rate' end
  if limits.concurrency and Settle.usage_of(ws) >= limits.concurrency then return 'parked' end
end

function Settle.weigh(ws)
  local limits = Limits.of(ws)
  if limits.parent ~= ws.parent then Groups.join(ws, limits.parent) end
  local old, new = ws.weight and tonumber(ws.weight), limits.weight
  if old == new then return end
  ws.weight = num(new)
  if not old then return end
  for _, flow in ipairs(ws.flows) do Order.reweigh(ws, flow, old / new) end
end

function Settle.forget(ws, flow)
  call('ZREM', K.finish(flow.node), ws.name)
  if flow.state == 'rest' then call('ZREM', K.resting(flow.node), ws.name) end
end

-- An empty flow: F is forgotten once it is behind V, nothing waits and no lease lives.
function Settle.retire(ws, flow)
  Order.leave(ws, flow)
  local finish = Order.finish_of(ws, flow)
  if finish and flow.task and Caps.of_task(flow.task) then
    if Shared.is_busy(ws, flow) then return true end
  elseif finish and Settle.usage_of(ws) > 0 then
    if flow.state ~= 'rest' then Order.stand(flow, 'idle') end
    return true
  end
  if finish and tonumber(finish) > Nodes.of(flow.node).v then
    call('ZADD', K.resting(flow.node), finish, ws.name)
    Order.stand(flow, 'rest')
    return true
  end
  Settle.forget(ws, flow)
end

function Settle.flow(ws, flow, block, below)
  if flow.lanes == '' then return Settle.retire(ws, flow) end
  if flow.task then block = block or Shared.lane_block(ws, flow) end
  if block then
    Order.leave(ws, flow)
    if flow.state == 'rest' then call('ZREM', K.resting(flow.node), ws.name) end
    Order.stand(flow, block)
  elseif not flow.serial then
    Order.enter(ws, flow, Means.cost_of(ws, flow))
  end
  if flow.serial and (below or flow.first) then First.rank(ws, flow, below) end
  return true
end

function Settle.workspace(ws)
  ws.dirty = true
  Settle.weigh(ws)
  local block, kept, below = Settle.blocked(ws), {}, Limits.of(ws).reserve and First.is_below(ws)
  for _, flow in ipairs(ws.flows) do
    local stays = Settle.flow(ws, flow, block, below)
    if stays then insert(kept, flow) end
    if flow.up then Branches.after(ws, flow, stays) end
  end
  ws.flows = kept
  Timer.arm(ws)
end

-- Forget resting workspaces that V has passed, at most `most` per call.
function Settle.sweep_resting(node, most)
  for _, name in ipairs(call('ZRANGEBYSCORE', K.resting(node.id), '-inf', num(node.v), 'LIMIT', 0, most)) do
    if match(name, '[/@]') then Climb.sweep(Branches.at(name), most) else Settle.workspace(Workspaces.of(name)) end
  end
end
