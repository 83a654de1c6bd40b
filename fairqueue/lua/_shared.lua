-- COLD: the slots that a lease holds at the gates: of its task, if that has a limit, and of its group.
local leases -- all of them, read once where tasks get or lose their limits

function Shared.gates_of(ws, l)
  local gates = {}
  if Limits.any('tasks') and Caps.of_task(l.task) then insert(gates, '/' .. l.task) end
  if ws.parent then insert(gates, '@' .. ws.parent) end
  return gates
end

-- A start counts for the rate of its task.
function Shared.take(ws, l)
  local gates = Shared.gates_of(ws, l)
  for _, key in ipairs(gates) do
    call('SADD', K.slots_of_gate(key), l.fence)
    local limits = Gates.limits(key)
    if key:sub(1, 1) == '/' then
      call('SADD', K.slots_of_share(ws.name, l.task), l.fence)
      if limits.rate then
        local gate = Gates.of(key)
        gate.tat = Fair.arrival_after(gate.tat, now, limits.rate)
      end
    end
  end
  return gates
end

function Shared.look(gates)
  for _, key in ipairs(gates) do Gates.look(key) end
end

function Shared.give_back(ws, l)
  local gates = Shared.gates_of(ws, l)
  for _, key in ipairs(gates) do
    call('SREM', K.slots_of_gate(key), l.fence)
    if key:sub(1, 1) == '/' then call('SREM', K.slots_of_share(ws.name, l.task), l.fence) end
  end
  Shared.look(gates)
end

function Shared.running(ws, flow)
  return call('SCARD', K.slots_of_share(ws.name, flow.task))
end

-- A task's limit per workspace parks that lane alone.
function Shared.lane_block(ws, flow)
  local limits = Caps.of_task(flow.task)
  local most = limits and limits.workspace_concurrency
  return most and Shared.running(ws, flow) >= most and 'lane' or nil
end

-- Nothing waits in this flow; while some of it runs, it is busy.
function Shared.is_busy(ws, flow)
  if Shared.running(ws, flow) == 0 then return false end
  if flow.state == 'rest' then call('ZREM', K.resting(flow.node), ws.name) end
  Order.stand(flow, 'busy')
  return true
end

-- Leases hold a slot of their task exactly while it has a limit.
function Shared.enroll(task)
  local change = Caps.of_task(task) and 'SADD' or 'SREM'
  leases = leases or call('HGETALL', K.leases())
  for i = 1, #leases, 2 do
    local workspace, of = match(leases[i + 1], '^%S+ %S+ (%S+) (%S+) ')
    if of == task then
      call(change, K.slots_of_gate('/' .. task), leases[i])
      call(change, K.slots_of_share(workspace, task), leases[i])
    end
  end
end

function Shared.change_task(task)
  Shared.enroll(task)
  Gates.look('/' .. task)
  Gates.settle('/' .. task)
end
