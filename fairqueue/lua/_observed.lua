-- COLD: what limits would have held or refused, where they are only observed.
--   workspace -> starts=3 concurrency.task=3 publishes=1 capacity.queue=1, since that began
-- Nothing that may hold or refuse is left but what would do so; pauses and drains stay.
function Observed.limits(would)
  return { weight = would.weight, burst = 1, parent = would.parent, fairness = would.fairness, exempt = would.exempt,
    paused = would.paused, draining = would.draining, would = would }
end

function Observed.add(name, whats)
  local counts, texts = {}, {}
  for what, n in gmatch(call('HGET', K.observed(), name) or '', '(%S+)=(%d+)') do counts[what] = n end
  for _, what in ipairs(whats) do counts[what] = int((counts[what] or 0) + 1) end
  for what, n in pairs(counts) do insert(texts, what .. '=' .. n) end
  table.sort(texts)
  call('HSET', K.observed(), name, concat(texts, ' '))
end

-- A start that is not over the rate counts for it, others do not.
function Observed.rates(ws, task)
  local own = Limits.of(ws).would
  if own.rate then ws.tat = num(Observed.arrival(tonumber(ws.tat), own)) end
  local limits = Limits.any('tasks') and Caps.of_task(task)
  if not limits or not limits.would.rate then return end
  local gate = Gates.of('/' .. task)
  gate.tat = Observed.arrival(gate.tat, limits.would)
end

function Observed.arrival(tat, limits)
  if Fair.next_start(tat, limits.rate, limits.burst) > now + 1e-9 then return tat end
  return Fair.arrival_after(tat, now, limits.rate)
end

-- A job of this lane is about to start.
function Observed.start(ws, flow, task)
  local whats = {}
  for _, hold in ipairs(Reasons.of_limits(ws, flow, task, true)) do
    local kind, scope = match(hold, '^(%S+) (%S+)')
    insert(whats, kind .. '.' .. scope)
  end
  Observed.rates(ws, task)
  if #whats == 0 then return end
  insert(whats, 'starts')
  Observed.add(ws.name, whats)
end

-- The first capacity that is reached would have refused it.
function Observed.publish(ws, queue)
  local own, queues, totals = Limits.of(ws).would, Limits.of_node(Nodes.of(queue))
  local limits, total = queues.would, totals.would
  local scope = own.capacity and Lanes.waiting_of(ws) >= own.capacity and 'workspace'
    or limits.capacity and Lanes.depth_of(queue) >= limits.capacity and 'queue'
    or total.capacity and Admit.total_depth() >= total.capacity and 'total'
  if scope then Observed.add(ws.name, { 'publishes', 'capacity.' .. scope }) end
end
