-- Why a job waits: everything that blocks its lane now, its position in its queue, and, where
-- limits are only observed, what they would have blocked. Nothing here writes but the counts of the
-- observed.
--   observed: workspace -> capacity.queue=1 concurrency.task=3 publishes=1 starts=3 last
local SEEN = 128 -- where more jobs run, nothing is said about since when a level is full
local WORKER_SECONDS = 5 -- longer than an idle worker takes to claim

function Explain.note(blockers, kind, scope, name, more)
  local limit = more.limit and num(more.limit) or '-'
  local until_then = more.until_then and num(more.until_then) or '-'
  local facts = { kind, scope, name, limit, more.used or '-', more.since or '-', until_then }
  insert(blockers, concat(facts, ' '))
end

-- A full level is so since the last start there, unless its limit was lowered since.
function Explain.last_start(fences)
  local last
  for _, fence in ipairs(fences) do
    local l = LeaseRecords.read(fence)
    local claimed = l and l.claimed or '0'
    if not last or tonumber(claimed) > tonumber(last) then last = claimed end
  end
  return last
end

function Explain.full(blockers, scope, name, limit, key, since)
  local used = limit and call('SCARD', key)
  if not limit or used < limit then return end
  since = since or not blockers.brief and used <= SEEN
    and Explain.last_start(call('SMEMBERS', key)) or nil
  Explain.note(blockers, 'concurrency', scope, name,
    { limit = limit, used = used, since = since })
end

function Explain.full_queue(blockers, name, limits)
  local limit = limits.concurrency
  local used, fences = limit and call('HLEN', K.slots_of_queue(name)), {}
  if not limit or used < limit then return end
  local running = not blockers.brief and used <= SEEN and call('HGETALL', K.slots_of_queue(name))
  for i = 2, running and #running or 0, 2 do insert(fences, running[i]) end
  Explain.note(blockers, 'concurrency', 'queue', name,
    { limit = limit, used = used, since = Explain.last_start(fences) })
end

function Explain.paused(blockers, scope, name, limits)
  if limits.paused then
    Explain.note(blockers, 'pause', scope, name, { since = num(limits.paused) })
  end
end

function Explain.rate(blockers, scope, name, limits, tat, since)
  local at = limits.rate and Fairness.next_start(tat, limits.rate, limits.burst)
  if at and at > now + 1e-9 then
    Explain.note(blockers, 'rate', scope, name,
      { limit = limits.rate, since = since, until_then = at })
  end
end

function Explain.total(blockers, limits)
  local used = limits.concurrency and Limits.running()
  if not used or used < limits.concurrency then return end
  local since = not blockers.brief and used <= SEEN
    and Explain.last_start(call('ZRANGE', K.expiry(), 0, -1)) or nil
  Explain.note(blockers, 'concurrency', 'total', '-',
    { limit = limits.concurrency, used = used, since = since })
end

-- Since when a flow, or an inner node above it that this shared limit closes, is in this state.
function Explain.since(flow, state, limit_key)
  while flow and flow.node do
    if flow.state == state and flow.limit_key == limit_key then return flow.since end
    flow = flow.up
  end
end

function Explain.task_limits(blockers, ws, flow, task)
  local limits = Limits.of_task(task)
  if not limits then return end
  limits = limits.would or limits
  local key = '/' .. task
  Explain.full(blockers, 'workspace_task', task, limits.workspace_concurrency,
    K.slots(ws.name .. '/' .. task), Explain.since(flow, 'at_task_limit'))
  local own = TaskRates.of(limits)
  if own then
    Explain.rate(blockers, 'workspace_task', task, own, TaskRates.tat(ws.name, task),
      Explain.since(flow, 'task_rate'))
  end
  Explain.full(blockers, 'task', task, limits.concurrency, K.slots(key),
    Explain.since(flow, 'at_limit', key))
  Explain.rate(blockers, 'task', task, limits, SharedLimitRecords.of(key).tat,
    Explain.since(flow, 'rate', key))
end

function Explain.group_limits(blockers, ws, flow)
  local key, limits = ws.parent and '@' .. ws.parent, ws.parent and Limits.of_group(ws.parent)
  if not key then return end
  local most = (limits.would or limits).concurrency
  Explain.full(blockers, 'group', ws.parent, most, K.slots(key),
    Explain.since(flow, 'at_limit', key))
end

-- The limits that block a flow, or would. brief: without since when.
function Explain.limits(ws, flow, task, brief)
  local blockers, own = { brief = brief }, Limits.of_workspace(ws).would or Limits.of_workspace(ws)
  local queue, total = Limits.of_queue(Records.node(flow.queue))
  queue, total = queue.would or queue, total.would or total
  Explain.full(blockers, 'workspace', ws.name, own.concurrency, K.slots(ws.name),
    Explain.since(flow, 'at_limit'))
  Explain.rate(blockers, 'workspace', ws.name, own, tonumber(ws.tat), Explain.since(flow, 'rate'))
  Explain.task_limits(blockers, ws, flow, task)
  Explain.group_limits(blockers, ws, flow)
  Explain.full_queue(blockers, flow.queue, queue)
  Explain.total(blockers, total)
  return blockers
end

-- Limits wider than this shard: their homes know how many jobs run, and so whether they are full.
function Explain.wide(blockers, flow, task)
  local limits, total = Limits.of_queue(Records.node(flow.queue))
  local of_task, key = Limits.of_task(task) or {}, '/' .. task
  for _, level in ipairs({ { 'total', '-', total }, { 'queue', flow.queue, limits },
    { 'task', task, of_task, Explain.since(flow, 'at_limit', key) } }) do
    local scope, name, of, since = unpack(level)
    if of.whole_concurrency then
      Explain.note(blockers, 'concurrency', scope, name,
        { limit = of.whole_concurrency, used = 'wide', since = since })
    end
  end
  local shared = of_task.whole_rate and SharedLimitRecords.of(key)
  if shared and shared.block == 'rate' then
    Explain.note(blockers, 'rate', 'task', task, { limit = of_task.whole_rate,
      since = Explain.since(flow, 'rate', key), until_then = shared.tat })
  end
end

-- Since when no worker has come that would have taken this; nil: one has, or it is not yet time.
-- What time has opened is not seen until a worker comes: then it is since the last call of any.
function Explain.no_worker_since(flow)
  if call('HLEN', K.slots_of_queue(flow.queue)) > 0 then return nil end
  local at, since, ready = flow, flow.since, true
  while at do
    ready = ready and at.arrival
    since = tonumber(at.since) > tonumber(since) and at.since or since
    at = at.up and at.up.up and at.up
  end
  local beat = Shard.load().beat
  if ready and call('EXISTS', K.token(flow.queue)) == 0 then return nil end
  if not ready and beat > tonumber(since) then since = num(beat) end
  return now - since > WORKER_SECONDS and since or nil
end

-- How many members of a node come before this one: those below their reserve come before all
-- others, and those of them that have lower tags are in the rank already.
function Explain.before(node, at, member)
  if at.reserved then return call('ZRANK', K.reserved(node), member) end
  local more = call('ZCOUNT', K.reserved(node), '(' .. at.tag, '+inf')
  for _, other in ipairs(call('ZRANGEBYSCORE', K.reserved(node), at.tag, at.tag)) do
    if other > member then more = more + 1 end
  end
  return (call('ZRANK', K.ready(node), member) or 0) + more
end

-- Turns of others before this flow, and how many are in line with it. An inner node is one flow.
function Explain.turns(ws, flow)
  local turns, entity, at = 0, ws, flow
  while at do
    local node = at.node.id or at.node
    if at.arrival then turns = turns + Explain.before(node, at, Order.member_of(entity, at)) end
    at = at.up and at.up.up and at.up
    entity = at
  end
  return turns, call('ZCARD', K.ready(flow.queue))
end

-- What blocks a flow now, and what would if limits were not only observed.
function Explain.blockers(ws, flow, task)
  local blockers, own = {}, Limits.of_workspace(ws)
  local queue, total = Limits.of_queue(Records.node(flow.queue))
  Explain.paused(blockers, 'total', '-', total)
  Explain.paused(blockers, 'queue', flow.queue, queue)
  if own.moves then
    Explain.note(blockers, 'move', 'workspace', ws.name,
      { limit = own.moves, since = num(own.paused) })
  else
    Explain.paused(blockers, 'workspace', ws.name, own)
  end
  Explain.paused(blockers, 'task', task, Limits.of_task(task) or {})
  local limits = Explain.limits(ws, flow, task)
  local would_block = own.would and limits or {}
  for _, blocker in ipairs(own.would and {} or limits) do insert(blockers, blocker) end
  local since = #blockers == 0 and Explain.no_worker_since(flow)
  if since then Explain.note(blockers, 'worker', 'queue', flow.queue, { since = since }) end
  Explain.wide(blockers, flow, task)
  return blockers, would_block
end

-- The position in its queue of a job of this lane, with `before` jobs of the lane before it;
-- without an element, of the first.
function Explain.position(ws, flow, element, before)
  local waiting = 0
  for priority in gmatch(flow.lanes, '%d+') do
    waiting = waiting + Lanes.length(ws, flow, priority)
  end
  element = element or Lanes.first(ws, flow, match(flow.lanes, '^%d+'))
  local task, id = Jobs.task_and_id(ws.name, flow.queue, element)
  local record = Jobs.read(flow.queue, id)
  local published = record and Jobs.published_at(record) or now_text
  local turns, in_line = Explain.turns(ws, flow)
  local blockers, would_block = Explain.blockers(ws, flow, task)
  return { flow.queue, task, published, waiting, before or 0, turns, in_line,
    ws.parent or '', num(Order.expected_seconds(ws, task)), blockers, would_block }
end

-- One more of each of these, of a workspace: its `lost` jobs, and what observed limits would have
-- done.
function Explain.count(name, whats)
  local counts, texts = {}, {}
  for what, n in gmatch(call('HGET', K.counts(), name) or '', '(%S+)=(%d+)') do
    counts[what] = n
  end
  for _, what in ipairs(whats) do counts[what] = int((counts[what] or 0) + 1) end
  for what, n in pairs(counts) do insert(texts, what .. '=' .. n) end
  table.sort(texts)
  insert(texts, now_text)
  call('HSET', K.counts(), name, concat(texts, ' '))
end

-- The counts without the time of the last one.
function Explain.counts_of(name)
  return match(call('HGET', K.counts(), name) or '', '^(.*) %S+$') or ''
end

-- A start that is not over an observed rate counts for it, others do not.
function Explain.observed_tat(tat, limits)
  if Fairness.next_start(tat, limits.rate, limits.burst) > now + 1e-9 then return tat end
  return Fairness.tat_after(tat, now, limits.rate)
end

function Explain.observe_rates(ws, task)
  local own = Limits.of_workspace(ws).would
  if own.rate then ws.tat = num(Explain.observed_tat(tonumber(ws.tat), own)) end
  local limits = Limits.of_task(task)
  if not limits then return end
  if not TaskRates.opens(ws.name, task, limits.would) then
    TaskRates.take(ws.name, task, limits.would)
  end
  if not limits.would.rate then return end
  local shared = SharedLimitRecords.of('/' .. task)
  shared.tat = Explain.observed_tat(shared.tat, limits.would)
end

-- A job of this lane is about to start.
function Explain.observe_start(ws, flow, task)
  local whats = {}
  for _, blocker in ipairs(Explain.limits(ws, flow, task, true)) do
    local kind, scope = match(blocker, '^(%S+) (%S+)')
    insert(whats, kind .. '.' .. scope)
  end
  Explain.observe_rates(ws, task)
  if #whats == 0 then return end
  insert(whats, 'starts')
  Explain.count(ws.name, whats)
end

-- The first capacity that is reached would have rejected it.
function Explain.observe_publish(ws, queue, of_workspace, of_queue, of_all)
  local own, queues, totals = Limits.of_workspace(ws).would, Limits.of_queue(Records.node(queue))
  local limits, total = queues.would, totals.would
  local scope = own.capacity and Lanes.waiting_of(ws) + of_workspace > own.capacity and 'workspace'
    or limits.capacity and Lanes.depth_of(queue) + of_queue > limits.capacity and 'queue'
    or total.capacity and of_all and Lanes.total_depth() + of_all > total.capacity and 'total'
  if scope then Explain.count(ws.name, { 'publishes', 'capacity.' .. scope }) end
end

-- How many elements stand before this one; nil: not among the first `most` of the list.
function Explain.rank(ws, flow, priority, element, most)
  local returned = K.returned(ws.name, flow.lane_key, priority)
  local at = call('ZRANK', returned, element)
  if at then return at end
  at = call('LPOS', K.lane(ws.name, flow.lane_key, priority), element, 'MAXLEN', most)
  return at and at + call('ZCARD', returned)
end
