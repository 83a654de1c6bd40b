-- COLD: a lane's place in its queue, for who asks. Nothing here writes.
local WORKER_SECONDS = 5 -- longer than an idle worker takes to come

-- Since when no worker has come that would have taken this; nil: one has, or it is not yet time.
-- What time has opened since nobody has seen: then it is since anybody came at all.
function Places.unseen_since(flow)
  if call('SCARD', K.slots_of_queue(flow.queue)) > 0 then return nil end
  local at, since, ready = flow, flow.since, true
  while at do
    ready = ready and at.serial
    since = tonumber(at.since) > tonumber(since) and at.since or since
    at = at.up and at.up.up and at.up
  end
  local beat = Meta.load().beat
  if ready and call('EXISTS', K.token(flow.queue)) == 0 then return nil end
  if not ready and tonumber(beat) > tonumber(since) then since = beat end
  return now - since > WORKER_SECONDS and since or nil
end

-- Who goes first comes before all others; those of them that have lower tags are in the rank already.
function Places.before(node, at, member)
  if at.first then return call('ZRANK', K.first(node), member) end
  local more = call('ZCOUNT', K.first(node), '(' .. at.tag, '+inf')
  for _, other in ipairs(call('ZRANGEBYSCORE', K.first(node), at.tag, at.tag)) do
    if other > member then more = more + 1 end
  end
  return (call('ZRANK', K.ready(node), member) or 0) + more
end

-- Turns of others before this flow, who is in line with it, and how many run: a branch is one flow.
function Places.turns(ws, flow)
  local turns, who, at = 0, ws, flow
  while at do
    local node = at.node.id or at.node
    if at.serial then turns = turns + Places.before(node, at, Order.member_of(who, at)) end
    at = at.up and at.up.up and at.up
    who = at
  end
  return turns, call('ZCARD', K.ready(flow.queue)), call('SCARD', K.slots_of_queue(flow.queue))
end

function Places.holds(ws, flow, task)
  local holds, own = {}, Limits.of(ws)
  local queue, total = Limits.of_node(Nodes.of(flow.queue))
  Reasons.paused(holds, 'total', '-', total)
  Reasons.paused(holds, 'queue', flow.queue, queue)
  Reasons.paused(holds, 'workspace', ws.name, own)
  Reasons.paused(holds, 'task', task, Limits.any('tasks') and Caps.of_task(task) or {})
  local limits = Reasons.of_limits(ws, flow, task)
  local would = own.would and limits or {}
  for _, hold in ipairs(own.would and {} or limits) do insert(holds, hold) end
  local since = #holds == 0 and Places.unseen_since(flow)
  if since then Reasons.note(holds, 'worker', 'queue', flow.queue, { since = since }) end
  return holds, would
end

-- A job of this lane, so many behind the first; without one, the first.
function Places.line(ws, flow, element, before)
  local waiting, first = 0, nil
  for priority in gmatch(flow.lanes, '%d+') do
    local lane = K.lane(ws.name, flow.place, priority)
    waiting, first = waiting + call('LLEN', lane), first or call('LINDEX', lane, 0)
  end
  local task, id = match(element or first, '^(%d+):(.*)$')
  local published = match(call('HGET', K.jobs(flow.queue), id), '^%S+ %S+ %S+ %S+ %S+ ([^/\n]+)')
  local turns, in_line, running = Places.turns(ws, flow)
  local holds, would = Places.holds(ws, flow, task)
  return { flow.queue, task, published, waiting, before or 0, turns, in_line, running,
    num(Means.expected(ws, task)), holds, would }
end
