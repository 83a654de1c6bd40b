-- Leases: granted with a fence, found by it, and dropped from every level at once.
-- Lease record: place id workspace task priority charged claimed ran owner marks deliveries
-- Marks: 1 acked early, 2 cancelled, 3 both.
local lease_end -- one script has one lease length
local LEASE = '^(([^ /]+)%S*) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'

function Lease.text_of(l)
  return concat({ l.place, l.id, l.workspace, l.task, l.priority, l.charged, l.claimed,
    l.ran, l.owner, (l.early and 1 or 0) + (l.cancelled and 2 or 0), int(l.deliveries) }, ' ')
end

function Lease.at(fence)
  local text = call('HGET', K.leases(), fence)
  if not text then return nil end
  local l = { fence = fence }
  l.place, l.queue, l.id, l.workspace, l.task, l.priority, l.charged, l.claimed, l.ran, l.owner, l.early, l.deliveries =
    match(text, LEASE)
  l.deliveries = tonumber(l.deliveries)
  if l.early ~= '0' then l.cancelled = l.early >= '2' end
  l.early = l.early == '1' or l.early == '3'
  return l
end

function Lease.ending(lease_seconds)
  lease_end = lease_end or num(now + lease_seconds)
  return lease_end
end

function Lease.keep(l)
  call('HSET', K.leases(), l.fence, Lease.text_of(l))
end

-- Usage is the size of these sets: a lease is in all of them or in none.
function Lease.drop(fence)
  if call('ZREM', K.expiry(), fence) == 0 then return nil end
  local l = Lease.at(fence)
  call('HDEL', K.leases(), fence)
  call('SREM', K.slots_of_workspace(l.workspace), fence)
  call('SREM', K.slots_of_queue(l.queue), fence)
  Wake.freed_shared(Nodes.of(l.queue))
  local ws = Workspaces.of(l.workspace)
  if ws.parent or Limits.any('tasks') then Shared.give_back(ws, l) end
  return l
end

function Lease.record_start(ws, flow)
  local node, step = Nodes.of(flow.node), flow.cost / ws.weight
  if not (flow.first and First.jumps(ws, node, flow, step)) then node.v = max(node.v, tonumber(flow.tag)) end
  node.big, node.dirty, ws.dirty = Fair.largest_step(node.big, step), true, true
  if flow.up then Dues.start(node, flow.cost) end
  node = Nodes.of(node.queue)
  local own, limits, total = Limits.of(ws), Limits.of_node(node)
  if own.capacity then Admit.pace(ws) end
  if limits.capacity or total.capacity then Admit.pace(node) end
  if own.rate then ws.tat = num(Fair.arrival_after(tonumber(ws.tat), now, own.rate)) end
end

-- Lease the first job of the flow at the head of ready; it must be runnable.
function Lease.grant(ws, flow, owner, lease_seconds)
  local element, priority = Lanes.pop(ws, flow)
  local task, id = match(element, '^(%d+):(.*)$')
  local queue = flow.queue
  if ws.expiring then Expiry.drop(ws, queue, priority, element) end
  local record = call('HGET', K.jobs(queue), id)
  local l = { fence = Meta.next_fence(), place = flow.place, queue = queue, id = id, workspace = ws.name, task = task,
    priority = priority, charged = flow.cost, claimed = now_text, ran = '0', owner = owner, early = false,
    deliveries = tonumber(match(record, '^%S+ %S+ %S+ (%S+)')) + 1 }
  if Limits.of(ws).would then Observed.start(ws, flow, task) end
  call('ZADD', K.expiry(), Lease.ending(lease_seconds), l.fence)
  Lease.keep(l)
  call('SADD', K.slots_of_workspace(ws.name), l.fence)
  call('SADD', K.slots_of_queue(queue), l.fence)
  local gates = flow.up and Shared.take(ws, l)
  Lease.record_start(ws, flow)
  Order.leave(ws, flow)
  Order.set_finish(ws, flow, flow.tag)
  Settle.workspace(ws)
  if gates then Shared.look(gates) end
  return l, record
end
