-- COLD: what holds a lane back now, or would where limits are only observed: all of it. Nothing here writes.
local SEEN = 128 -- where more run, nobody looks since when a level is full

function Reasons.note(holds, kind, scope, name, more)
  insert(holds, concat({ kind, scope, name, more.limit and num(more.limit) or '-', more.used or '-',
    more.since or '-', more.until_then and num(more.until_then) or '-' }, ' '))
end

-- A full level is so since the last start there, unless its limit was lowered since.
function Reasons.last_start(fences)
  local last
  for _, fence in ipairs(fences) do
    local claimed = Lease.at(fence).claimed
    if not last or tonumber(claimed) > tonumber(last) then last = claimed end
  end
  return last
end

function Reasons.full(holds, scope, name, limit, key, since)
  local used = limit and call('SCARD', key)
  if not limit or used < limit then return end
  since = since or not holds.brief and used <= SEEN and Reasons.last_start(call('SMEMBERS', key)) or nil
  Reasons.note(holds, 'concurrency', scope, name, { limit = limit, used = used, since = since })
end

function Reasons.paused(holds, scope, name, limits)
  if limits.paused then Reasons.note(holds, 'pause', scope, name, { since = num(limits.paused) }) end
end

function Reasons.rated(holds, scope, name, limits, tat, since)
  local at = limits.rate and Fair.next_start(tat, limits.rate, limits.burst)
  if at and at > now + 1e-9 then
    Reasons.note(holds, 'rate', scope, name, { limit = limits.rate, since = since, until_then = at })
  end
end

function Reasons.total(holds, limits)
  local used = limits.concurrency and call('ZCARD', K.expiry())
  if not used or used < limits.concurrency then return end
  local since = not holds.brief and used <= SEEN and Reasons.last_start(call('ZRANGE', K.expiry(), 0, -1)) or nil
  Reasons.note(holds, 'concurrency', 'total', '-', { limit = limits.concurrency, used = used, since = since })
end

-- Since when a flow, or a branch above it that a gate closes, stands like this.
function Reasons.since(flow, state, gate)
  while flow and flow.node do
    if flow.state == state and flow.gate == gate then return flow.since end
    flow = flow.up
  end
end

function Reasons.of_task(holds, ws, flow, task)
  local limits = Limits.any('tasks') and Caps.of_task(task)
  if not limits then return end
  limits = limits.would or limits
  local gate = '/' .. task
  Reasons.full(holds, 'workspace_task', task, limits.workspace_concurrency, K.slots_of_share(ws.name, task), Reasons.since(flow, 'lane'))
  Reasons.full(holds, 'task', task, limits.concurrency, K.slots_of_gate(gate), Reasons.since(flow, 'parked', gate))
  Reasons.rated(holds, 'task', task, limits, Gates.of(gate).tat, Reasons.since(flow, 'rate', gate))
end

function Reasons.of_limits(ws, flow, task, brief) -- brief: nobody asks since when
  local holds, own = { brief = brief }, Limits.of(ws).would or Limits.of(ws)
  local queue, total = Limits.of_node(Nodes.of(flow.queue))
  queue, total = queue.would or queue, total.would or total
  Reasons.full(holds, 'workspace', ws.name, own.concurrency, K.slots_of_workspace(ws.name), Reasons.since(flow, 'parked'))
  Reasons.rated(holds, 'workspace', ws.name, own, tonumber(ws.tat), Reasons.since(flow, 'rate'))
  Reasons.of_task(holds, ws, flow, task)
  Reasons.of_group(holds, ws, flow)
  Reasons.full(holds, 'queue', flow.queue, queue.concurrency, K.slots_of_queue(flow.queue))
  Reasons.total(holds, total)
  return holds
end

function Reasons.of_group(holds, ws, flow)
  local gate, limits = ws.parent and '@' .. ws.parent, ws.parent and Caps.of_group(ws.parent)
  if not gate then return end
  local most = (limits.would or limits).concurrency
  Reasons.full(holds, 'group', ws.parent, most, K.slots_of_gate(gate), Reasons.since(flow, 'parked', gate))
end
