-- Leases: granted with a fence, found by it, and dropped from every level at once.
-- Lease record: queue id workspace task priority charged claimed ran owner early deliveries
local lease_end -- one script has one lease length
local LEASE = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'

function Lease.text_of(l)
  return concat({ l.queue, l.id, l.workspace, l.task, l.priority, l.charged, l.claimed,
    l.ran, l.owner, l.early and 1 or 0, int(l.deliveries) }, ' ')
end

function Lease.at(fence)
  local text = call('HGET', K.leases(), fence)
  if not text then return nil end
  local l = { fence = fence }
  l.queue, l.id, l.workspace, l.task, l.priority, l.charged, l.claimed, l.ran, l.owner, l.early, l.deliveries =
    match(text, LEASE)
  l.deliveries = tonumber(l.deliveries)
  l.early = l.early == '1'
  return l
end

function Lease.ending(lease_seconds)
  lease_end = lease_end or num(now + lease_seconds)
  return lease_end
end

function Lease.keep(l)
  call('HSET', K.leases(), l.fence, Lease.text_of(l))
end

-- Job record: workspace task priority deliveries redelivered published\npayload
function Lease.job_text(l, deliveries, record)
  local published, payload = match(record, '^%S+ %S+ %S+ %S+ %S+ (%S+)\n(.*)$')
  return concat({ l.workspace, l.task, l.priority, int(deliveries), 1, published }, ' ') .. '\n' .. payload
end

function Lease.take_slots(ws, queue, fence)
  call('SADD', K.slots_of_workspace(ws.name), fence)
  call('SADD', K.slots_of_queue(queue), fence)
end

-- Usage is the size of these sets: a lease is in all of them or in none.
function Lease.drop(fence)
  if call('ZREM', K.expiry(), fence) == 0 then return nil end
  local l = Lease.at(fence)
  call('HDEL', K.leases(), fence)
  call('SREM', K.slots_of_workspace(l.workspace), fence)
  call('SREM', K.slots_of_queue(l.queue), fence)
  Wake.freed_shared(Nodes.of(l.queue))
  return l
end

function Lease.record_start(ws, node, flow)
  node.v, node.big = max(node.v, tonumber(flow.tag)), Fair.largest_step(node.big, flow.cost / ws.weight)
  node.dirty, ws.dirty = true, true
  local own, limits, total = Limits.of(ws), Limits.of_node(node)
  if own.capacity then Admit.pace(ws) end
  if limits.capacity or total.capacity then Admit.pace(node) end
  if own.rate then ws.tat = num(Fair.arrival_after(tonumber(ws.tat), now, own.rate)) end
end

-- Lease the first job of the flow at the head of ready; it must be runnable.
function Lease.grant(ws, flow, owner, lease_seconds)
  local element, priority = Lanes.pop(ws, flow)
  local task, id = match(element, '^(%d+):(.*)$')
  local record = call('HGET', K.jobs(flow.queue), id)
  local l = { fence = Meta.next_fence(), queue = flow.queue, id = id, workspace = ws.name, task = task,
    priority = priority, charged = flow.cost, claimed = now_text, ran = '0', owner = owner, early = false,
    deliveries = tonumber(match(record, '^%S+ %S+ %S+ (%S+)')) + 1 }
  call('ZADD', K.expiry(), Lease.ending(lease_seconds), l.fence)
  Lease.keep(l)
  Lease.take_slots(ws, flow.queue, l.fence)
  Lease.record_start(ws, Nodes.of(flow.queue), flow)
  Order.leave(ws, flow)
  Order.set_finish(ws, flow, flow.tag)
  Settle.workspace(ws)
  return l, record
end
