-- settle() decides where a workspace stands, after every event that can change it.
-- No other code puts a flow into a ready set or takes one out (a claim that pops it settles next).
local function usage_of(ws)
  return call('SCARD', K.slots_of_workspace(ws.name))
end

local function blocked(ws)
  local limits = limits_of(ws)
  if limits.rate and next_start(ws.tat, limits.rate, limits.burst) > now + 1e-9 then return 'rate' end
  if limits.concurrency and usage_of(ws) >= limits.concurrency then return 'parked' end
end

local function weigh(ws)
  local old, new = ws.weight, limits_of(ws).weight
  ws.weight = new
  if not old or old == new then return end
  for _, flow in ipairs(ws.flows) do reweigh(ws, flow, old / new) end
end

local function forget(ws, flow)
  call('ZREM', K.finish(flow.queue), ws.name)
  if flow.state == 'rest' then call('ZREM', K.resting(flow.queue), ws.name) end
end

-- An empty flow: F is forgotten once it is behind V, nothing waits and no lease lives.
local function retire(ws, flow)
  leave(ws, flow)
  local finish = finish_of(ws, flow)
  if finish and usage_of(ws) > 0 then
    if flow.state ~= 'rest' then stand(flow, 'idle') end
    return true
  end
  if finish and finish > node_of(flow.queue).v then
    call('ZADD', K.resting(flow.queue), num(finish), ws.name)
    stand(flow, 'rest')
    return true
  end
  forget(ws, flow)
end

local function settle_flow(ws, flow, block)
  if flow.lanes == '' then return retire(ws, flow) end
  if block then
    leave(ws, flow)
    if flow.state == 'rest' then call('ZREM', K.resting(flow.queue), ws.name) end
    stand(flow, block)
  elseif not flow.serial then
    enter(ws, flow, cost_of(ws, flow))
  end
  return true
end

local function settle(ws)
  weigh(ws)
  local block, kept = blocked(ws), {}
  for _, flow in ipairs(ws.flows) do
    if settle_flow(ws, flow, block) then insert(kept, flow) end
  end
  ws.flows = kept
  arm(ws)
end

-- Forget resting workspaces that V has passed, at most `most` per call.
local function sweep_resting(node, most)
  for _, name in ipairs(call('ZRANGEBYSCORE', K.resting(node.queue), '-inf', num(node.v), 'LIMIT', 0, most)) do
    settle(workspace(name))
  end
end
