-- What time alone brings: expired leases, due timers, a changed default that must reach every
-- workspace, and to forget what is idle.
local AGAIN_SECONDS = 0.05 -- until the next call, where one has not forgotten everything
local REST_SECONDS = 60 -- without a start, until the debts of an empty queue are forgotten
local SHORTEST_GAP = 0.05 -- half of the shortest lease

-- Note that a script ran.
function Tick.beat()
  local meta = S.meta or Shard.load()
  local beat, texts = meta.beat, {}
  meta.beat, offset = now, ahead
  if beat == 0 or now - beat <= SHORTEST_GAP then return end
  insert(Tick.gaps(), { away = num(beat), back = now_text })
  for i, gap in ipairs(Tick.gaps()) do texts[i] = gap.away .. ':' .. gap.back end
  meta.gaps = concat(texts, ',')
end

-- Until when a lease that has ended is kept, if its owner could not renew it: for one lease after
-- the store came back. One that had ended a lease before the gap is not spared again, or a process
-- that calls rarely would never reap.
function Tick.spared_until(l)
  local until_then
  for _, gap in ipairs(Tick.gaps()) do
    local ends = gap.back + l.length
    local is_outage = gap.back - gap.away > l.length / 2
    if is_outage and tonumber(l.ended) > gap.away - l.length and now < ends then
      until_then = ends
    end
  end
  return until_then
end

function Tick.reap(max_deliveries, most)
  local found, reaped = call('ZRANGEBYSCORE', K.expiry(), '-inf', int(Fairness.microseconds(now)),
    'WITHSCORES', 'LIMIT', '0', most), 0
  for i = 1, #found, 2 do
    S.at_work = { fence = found[i] }
    local l = LeaseRecords.read(found[i]) or Tick.lost_lease(found[i])
    if l then l.ended = l.ended or num(Fairness.seconds(found[i + 1])) end
    local until_then = l and Tick.spared_until(l)
    if not l then
      call('ZREM', K.expiry(), found[i])
    elseif until_then then
      Leases.spare(l, until_then)
    else
      Leases.expire(l, max_deliveries)
      reaped = reaped + 1
    end
  end
  S.at_work = false
  Shard.took_steps(#found / 2)
  return reaped
end

-- A lease without a record that can be read: it is found by its job, and expires as any other.
-- Without a record and a job, nothing was lost: the lease has ended, and an index still names it.
function Tick.lost_lease(fence)
  local raw, l = LeaseRecords.raw(fence), Rebuild.lost_lease(fence)
  if raw or l then Shard.set_aside('lease', fence, raw) end
  call('HDEL', K.leases(), fence)
  return l
end

-- name, time, ...
function Tick.due_timers()
  local most = max(0, Shard.tick_steps_left())
  return call('ZRANGEBYSCORE', K.timer(), '-inf', now_text, 'WITHSCORES', 'LIMIT', '0', most)
end

-- Each job that a timer moves is a step, and so is a timer that moves none.
function Tick.fire_timers(due)
  local fired = 0
  for i = 1, #due, 2 do
    local name = due[i]
    local most, n = Shard.tick_steps_left(), 0
    if most <= 0 then break end
    S.at_work = { timer = name }
    if match(name, '^[/@]') then
      Tick.fire_shared(name)
    else
      n = Tick.fire_timer(Records.workspace(name), tonumber(due[i + 1]), most)
    end
    if n == 0 then Shard.took_steps(1) end
    fired = fired + n
  end
  S.at_work = false
  return fired
end

-- A timer that its record does not name goes.
function Tick.fire_shared(key)
  if not SharedLimitRecords.of(key).timer then call('ZREM', K.timer(), key) end
  Settle.shared_limit(key, true)
end

-- Jobs of one workspace that are due or have expired, at most `most`. A record that names another
-- time than its timer was lost, or could not be written.
function Tick.fire_timer(ws, at, most)
  if ws.timer ~= at then Rebuild.workspace(ws) end
  local fired = Timers.fire(ws, most)
  Shard.took_steps(fired)
  ws.fired = true
  if ws.expiring and fired < most then fired = fired + Removal.expired(ws, most - fired) end
  if Timers.has_put_off(ws) then Tick.clear(ws) end
  Settle.workspace(ws)
  return fired
end

-- Flows that were put off come back, if what stood before their first job is gone.
function Tick.clear(ws)
  local function is_put_off(_, _, state) return state == 'put_off' end
  if ws.others then Flows.read_some(ws, max(1, Shard.steps_left()), is_put_off) end
  for _, flow in ipairs(ws.flows) do
    if flow.state == 'put_off' then flow.is_clear = Select.clear_head(ws, flow) end
  end
end

-- First jobs whose task has got a limit go to lanes of their own, so that no claim has to look at
-- them.
function Tick.reroute(ws)
  if not Limits.any('tasks') then return end
  for _, flow in ipairs(ws.flows) do
    if flow.arrival then Select.clear(ws, flow, true) end
  end
end

-- Some workspaces are settled in each call until all are, and some flows of one that has many: how
-- far it has come is a cursor, or that before a page and behind it :workspace:lane key. A workspace
-- that fails waits.
function Tick.drain_change()
  local meta = S.meta
  if meta.drain == '-' then return end
  local most = max(1, Shard.tick_steps_left())
  local before, first, from = match(meta.drain, '^([^:]+):?([^:]*):?(.*)$')
  local cursor, found = unpack(call('HSCAN', K.workspaces(), before, 'COUNT', int(most)))
  local names = {}
  for i = 1, #found, 2 do
    if found[i] >= first then insert(names, found[i]) end
  end
  table.sort(names)
  meta.drain = cursor == '0' and '-' or cursor -- before: a page that fails must not come again
  for i, name in ipairs(names) do
    S.at_work = { timer = name }
    local done, last = pcall(Tick.change, name, name == first and from or '')
    if not done then last = RebuildJobs.go_on(last) end
    if last then
      S.at_work = false
      meta.drain = concat({ before, name, last }, ':')
      return Shard.took_steps(i)
    end
  end
  S.at_work = false
  Shard.took_steps(#names)
end

function Tick.change(name, from)
  local ws = Records.workspace(name)
  local last = Rebuild.next_stands(ws, from)
  Tick.reroute(ws)
  Settle.workspace(ws)
  return last
end

-- Virtual time has passed an inner node that is idle, or its members.
function Tick.node(b, most)
  local n = Tick.indebted(b, most)
  if not b.gone then Settle.upwards(b) end
  return n + 1
end

-- Settle flows that are idle with a debt which virtual time has passed, at most `most`; return how
-- many.
function Tick.indebted(node, most)
  if not node.up and node.least_debt > node.virtual_time then return 0 end
  local until_then, debts, n = int(node.virtual_time), K.indebted(node.id), 0
  for _, name in ipairs(call('ZRANGEBYSCORE', debts, '-inf', until_then, 'LIMIT', '0', most)) do
    if n >= most then break end
    if match(name, '[/@]') then
      n = n + Tick.node(Records.inner_node(name), most - n)
    else
      local ws = Records.workspace(name)
      Records.flow(ws, node.lane_key, true) -- of many flows it is the one to settle
      Settle.workspace(ws)
      n = n + 1
    end
  end
  if not node.up then
    local least = call('ZRANGE', debts, '0', '0', 'WITHSCORES')[2]
    node.least_debt, node.dirty = tonumber(least or Records.NO_DEBT), true
  end
  return n
end

-- In a queue where nothing is ready, nothing runs and nothing has started for a while, virtual time
-- rises to where the next flow to join would lift it. So no debt outlives the work of its queue by
-- long; and a queue that is empty for a moment does not cost a workspace its duration estimates.
function Tick.rest(node)
  if now - node.last_fence / 1000000 < REST_SECONDS then return end -- fences are times
  local is_at_rest = call('EXISTS', K.ready(node.id), K.slots_of_queue(node.queue)) == 0
  if is_at_rest then Order.catch_up(node, 0) end
end

-- Forget idle flows of a queue from which nothing was claimed, at most `most`; return how many.
function Tick.forget_idle(queue, most)
  local node = Records.node(queue)
  if node.least_debt == Records.NO_DEBT then return 0 end
  Tick.rest(node)
  return Tick.indebted(node, most)
end

-- Forget idle flows of every queue of a claim. A claim that found no job forgets more, and its
-- claimer comes back soon while flows are left.
function Tick.forget_idle_of(queues, has_claimed)
  local left = has_claimed and Shard.steps_left() or Shard.IDLE_STEPS
  for _, queue in ipairs(queues) do
    if left <= 0 then break end
    if has_claimed then
      left = left - Tick.indebted(Records.register(queue), left)
    else
      left = left - Tick.forget_idle(queue, left)
    end
  end
  if left <= 0 and not has_claimed then S.look_again_at = now + AGAIN_SECONDS end
end

-- Leases and timers share the steps of the call: timers get half of them, if any is due.
function Tick.leases_and_timers(max_deliveries)
  local due, most = Tick.due_timers(), Shard.tick_steps_left()
  local reaped = Tick.reap(max_deliveries, #due > 0 and int(most / 2) or most)
  if reaped > 0 then due = Tick.due_timers() end
  local fired = Tick.fire_timers(due)
  Wakeups.look_ahead()
  return reaped + fired
end

function Tick.all(max_deliveries)
  S.steps_kept = Shard.STEPS_KEPT
  Tick.beat()
  local n = Shard.is_due() and Tick.leases_and_timers(max_deliveries) or 0
  Tick.drain_change()
  Shard.drop_windows()
  S.steps_kept = 0
  return n
end

-- The times in which no script ran, as away:back,... with the oldest first.
-- While the store was away no worker could renew. A gap of half a lease shows that it was away:
-- idle claimers poll more often, and a lease that is renewed by thirds outlives a shorter one.
-- Leases have their own lengths, so each is compared with all gaps. A gap is forgotten after twice
-- its length, when it spares no lease any more; so there are few: each is at least half as long as
-- the time that has passed since.
function Tick.gaps()
  if S.gaps then return S.gaps end
  S.gaps = {}
  for away, back in gmatch(Shard.load().gaps, '([^:,]+):([^,]+)') do
    if now < back + 2 * (back - away) then insert(S.gaps, { away = away, back = back }) end
  end
  return S.gaps
end
