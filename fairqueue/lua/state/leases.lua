-- Leases: granted with a fence, found by it, and dropped from every level at once; and what becomes
-- of the job then: it is finished, redelivered, or dead. Each true-up is what it has worked, in
-- microseconds, minus what was charged.

-- The lease of this fence, if this owner holds it. Where Redis has lost writes and its clock has
-- gone back, too, a fence may have been given to another owner.
function Leases.held(fence, owner)
  local text = LeaseRecords.raw(fence)
  return text and Leases.held_as(fence, text, owner)
end

function Leases.held_as(fence, text, owner)
  local l = LeaseRecords.parse(fence, text)
  return l and l.owner == owner and l or nil
end

-- Usage is the size of these sets: a lease is in all of them or in none.
function Leases.drop_all(leases)
  local touched = S.touched_leases
  for i = 1, #leases do
    local l = leases[i]
    touched[#touched + 1] = l
    if l.is_whole then l.is_whole = false end -- a field more would double the table
    local ws = S.workspaces[l.workspace]
    if ws then ws.usage = false end
  end
  call('ZREM', K.expiry(), Arguments.of(leases, 'fence'))
  LeaseRecords.remove_all(leases)
  Arguments.for_each('SREM', K.slots, leases, 'workspace', 'fence')
  Arguments.for_each('HDEL', K.slots_of_queue, leases, 'queue', 'id')
end

function Leases.drop(l)
  Leases.drop_all({ l })
  return Leases.dropped(l)
end

-- A lease was dropped: return its workspace.
function Leases.dropped(l)
  Wakeups.slot_freed(S.nodes[l.queue] or Records.node(l.queue))
  local ws = S.workspaces[l.workspace] or Records.workspace(l.workspace)
  if ws.is_unread or not (ws.raw or ws.dirty) then Rebuild.workspace(ws) end
  if ws.others then Records.flow(ws, l.lane_key, true) end -- it follows at once
  if ws.parent or ws.move or Limits.any('indexed') then
    Settle.shared_limits(SharedLimits.give_back(ws, l))
  end
  return ws
end

-- How fast a limited capacity drains, for the rejections to come.
function Leases.record_interval(at)
  local interval, last_start = at.start_interval + 0, at.last_start + 0
  at.start_interval = format('%.6f', Fairness.start_interval_after(interval, last_start, now))
  at.last_start = now_text
end

-- What limits must know of a start.
function Leases.record_start(ws, node)
  if Limits.none_is_set() then return end
  local own, limits, total = Limits.of_workspace(ws), Limits.of_queue(node)
  if own.capacity then Leases.record_interval(ws) end
  if limits.capacity or total.capacity then Leases.record_interval(node) end
  if own.rate then ws.tat = num(Fairness.tat_after(tonumber(ws.tat), now, own.rate)) end
end

-- Whether a job runs under a lease of another fence.
function Leases.runs_already(l)
  if call('HSETNX', K.slots_of_queue(l.queue), l.id, l.fence) == 1 then return false end
  Leases.save_granted()
  if call('HEXISTS', K.leases(), call('HGET', K.slots_of_queue(l.queue), l.id)) == 1 then
    return true
  end
  call('HSET', K.slots_of_queue(l.queue), l.id, l.fence)
  return false
end

-- Lease the first job of the flow at the head of its node; it must be runnable. nil, nil and
-- whether looks are left: the first element names no job that can start, and is passed.
function Leases.grant(ws, flow, owner, lease_seconds)
  local element, priority = Lanes.pop(ws, flow)
  local task, id = Jobs.task_and_id(ws.name, flow.queue, element)
  if not id then return Leases.pass(ws, flow, element or '-', false) end
  local queue = flow.queue
  local node = S.nodes[queue] or Records.node(queue)
  if ws.expiring then Timers.drop_expiry(ws, queue, priority, element) end
  local record = Jobs.read(queue, id)
  local deliveries = Jobs.deliveries_of(record)
  if not deliveries then return Leases.pass(ws, flow, id, record) end
  local cost, guess = Order.price(ws, flow, task)
  local l = { fence = Shard.next_fence(), lane_key = flow.lane_key, queue = queue, id = id,
    workspace = ws.name, task = task, priority = priority, charged = cost, claimed = now_text,
    ran = '0', owner = owner, deliveries = deliveries + 1, length = lease_seconds,
    since = Order.runnable_since(flow), is_whole = false } -- 16 fields
  local touched = S.touched_leases
  if (ws.limits or Limits.of_workspace(ws)).would then Explain.observe_start(ws, flow, task) end
  touched[#touched + 1] = l
  if Leases.runs_already(l) then return Leases.pass(ws, flow, id, false) end
  call('SADD', K.slots(ws.name), l.fence)
  if ws.usage then ws.usage = ws.usage + 1 end
  local keys = (flow.up or ws.move or Limits.any('indexed')) and SharedLimits.take(ws, l)
  node.last_fence, node.dirty = S.meta.fence, true
  Leases.record_start(ws, node)
  Settle.start(ws, flow, cost, guess)
  if keys then Settle.shared_limits(keys) end
  local granted = S.granted
  granted[#granted + 1] = l
  return l, record
end

-- Write the leases that were granted: what all of them share takes one command.
function Leases.save_granted()
  local granted = S.granted
  if not granted[1] then return end
  LeaseRecords.grant_all(granted, now + granted[1].length)
  for i = 1, #granted do granted[i].is_whole = true end
  S.granted = {}
end

-- A cancelled job blocks no key once it has ended, though the key may have a time of its own.
function Leases.free_key(l)
  Jobs.free_key(Jobs.unique_field(Jobs.read(l.queue, l.id) or ''), l.queue, l.id)
end

function Leases.remove_job(l)
  if l.cancelled then Leases.free_key(l) end
  call('HDEL', K.jobs(l.queue), l.id)
  Shard.remember_ended(l.id)
end

function Leases.true_up(ws, l, worked, is_refunded)
  if is_refunded then worked = 0
  elseif (ws.limits or Limits.of_workspace(ws)).fairness == 'count' then worked = l.charged
  else worked = max(worked, Fairness.FLOOR) end
  Order.charge(ws, l.lane_key, worked - l.charged)
end

-- For how long it has been held, in microseconds.
function Leases.held_for(l, until_then)
  return Fairness.microseconds((until_then or now) - l.claimed)
end

function Leases.worked(l, seconds)
  return Fairness.microseconds(Fairness.worked(seconds, now - l.claimed))
end

-- Each with what its owner reports; a workspace is settled once, after its last.
-- The jobs go first: one whose lease is dropped by half runs again.
function Leases.finish(leases, seconds)
  for _, l in ipairs(leases) do
    if l.cancelled then Leases.free_key(l) end
  end
  Arguments.for_each('HDEL', K.jobs, leases, 'queue', 'id')
  Shard.remember_ended(Arguments.of(leases, 'id'))
  Leases.drop_all(leases)
  local left = leases[2] and {}
  for i = 1, #leases do
    local l = leases[i]
    local ws, worked = Leases.dropped(l), Leases.worked(l, seconds[i])
    Order.record_duration(ws, l.task, worked)
    Leases.true_up(ws, l, worked)
    if left then left[ws] = i else Settle.workspace(ws) end
  end
  for i = 1, left and #leases or 0 do
    local ws = S.workspaces[leases[i].workspace]
    if left[ws] == i then Settle.workspace(ws) end
  end
  Tasks.save()
end

function Leases.finish_early(l)
  l.early = true
  LeaseRecords.save(l)
end

-- One that its worker gives back or rejects; what follows the ending, `:` between its parts:
--   release: seconds how delay refused waits
--     how: counted, declined, or released, which is neither
--     refused: it has no permit to start, and neither has its task here for so long; '': it had
--     waits: the id of its task, if that waits for children, see state/steps.lua
--   reject: seconds reason details
function Leases.end_otherwise(l, ending, text, max_deliveries)
  if ending == 'reject' then
    local seconds, reason, details = match(text, '^(.-):(.-):(.*)$')
    return Leases.reject(l, reason, tonumber(seconds), details)
  end
  local seconds, how, delay, refused, waits = match(text, '^(.-):(.-):(.-):(.-):(.*)$')
  local is_woken = waits ~= '' and Steps.suspend(l, waits)
  local due = not is_woken and tonumber(delay) > 0 and now + delay or nil
  if refused ~= '' then Leases.refuse(l, tonumber(refused)) end
  Leases.release(l, due, how == 'counted', tonumber(seconds), max_deliveries, how == 'declined')
end

-- "fence:ending:seconds[:...] ..." as a claimer sends it; return the fences that were lost.
function Leases.finish_all(finishes, owner, max_deliveries)
  if finishes == '' then return '' end
  local fences, endings, worked, n = { nil }, { nil }, { nil }, 0
  for fence, ending, seconds in gmatch(finishes, '(%d+):(%a+):(%S+)') do
    n = n + 1
    fences[n], endings[n], worked[n] = fence, ending, seconds
  end
  local texts, lost = call('HMGET', K.leases(), unpack(fences)), ''
  local ended, seconds = { nil }, { nil }
  for i = 1, n do
    local fence, l = fences[i], nil
    l = texts[i] and not ended[fence] and Leases.held_as(fence, texts[i], owner)
    if not l then
      lost = lost == '' and fence or lost .. ' ' .. fence
    elseif endings[i] == 'ack' then
      local at = #ended + 1
      ended[at], ended[fence], seconds[at] = l, true, worked[i]
    elseif endings[i] == 'early' then
      Leases.finish_early(l)
    else
      ended[fence] = true
      Leases.end_otherwise(l, endings[i], worked[i], max_deliveries)
    end
  end
  if ended[1] then Leases.finish(ended, seconds) end
  return lost
end

-- An element of a lane without a job that can start: it has no record, or one that cannot be read,
-- or it runs already.
function Leases.pass(ws, flow, id, record)
  if record and Shard.keeps_aside() then call('HDEL', K.jobs(flow.queue), id) end
  Shard.set_aside('job', id, record)
  if not Shard.take_step() then Order.put_off(ws, flow) end
  Settle.workspace(ws)
  return nil, nil, Shard.take_look()
end

-- It has ended, and is kept until then.
function Leases.spare(l, until_then)
  LeaseRecords.keep_until(l.fence, until_then)
  LeaseRecords.save(l)
end

-- Mark a running job as cancelled; false: it was before.
function Leases.cancel(l)
  if l.cancelled then return false end
  l.cancelled = true
  LeaseRecords.save(l)
  return true
end

-- The job goes to the head of its lane, or waits until it is due.
function Leases.redeliver(ws, l, deliveries, due, outcome, worked)
  local element = Jobs.element(l.task, l.id)
  local record, first_fence = Jobs.record_after(l, deliveries, outcome, worked)
  if not record then return Leases.remove_job(l) end
  local expires = Jobs.expires_at(record)
  if expires then Timers.add_expiry(ws, l.queue, l.priority, element, expires) end
  Jobs.write(l.queue, l.id, record)
  if due then return Timers.schedule(ws, l.queue, l.priority, element, due) end
  local flow = Records.flow(ws, Lanes.key_of(l.queue, l.task))
  Lanes.put_back(ws, flow, l.priority, element, first_fence)
end

function Leases.move_to_dead_letters(l, reason, outcome, worked, has_notice, details)
  local record = Jobs.record_after(l, l.deliveries, outcome, worked)
  if not record then return Leases.remove_job(l) end
  DeadLetters.add(l.workspace, l.queue, l.id, reason, l.deliveries, record, has_notice, details)
  Leases.remove_job(l)
end

-- A job that was cancelled while it ran, and whose worker did not end it: it is not run again. It
-- goes before its lease.
function Leases.cancelled(l, outcome, worked)
  call('ZREM', K.expiry(), '') -- frees first: see renew.lua
  local record = Jobs.record_after(l, l.deliveries, outcome, worked)
  if not record then return Leases.remove_job(l) end
  DeadLetters.add_cancelled(l.workspace, l.queue, l.id, l.deliveries, record)
  Leases.remove_job(l)
end

-- Its start counts: the last one that it has makes it a dead letter.
function Leases.redeliver_counted(ws, l, max_deliveries, due, outcome, worked)
  if max_deliveries and l.deliveries >= max_deliveries then
    return Leases.move_to_dead_letters(l, 'max_deliveries', outcome, worked, true)
  end
  Leases.redeliver(ws, l, l.deliveries, due, outcome, worked)
end

-- Its worker reports nothing more. So the job is charged for the whole time for which it held the
-- slot: charged for what was reported, a workspace whose jobs kill their workers would pay nothing,
-- and would go to the head again and again.
function Leases.expire(l, max_deliveries)
  local is_over = l.early or l.cancelled -- then the job goes first, as in `finish`
  if l.early then Leases.remove_job(l) -- it is not run again, as its user chose
  elseif is_over then Leases.cancelled(l, 'lost', tonumber(l.ran)) end
  local ws = Leases.drop(l)
  Leases.true_up(ws, l, Fairness.lost(l.ran, Leases.held_for(l, l.ended)))
  if not is_over then
    Leases.redeliver_counted(ws, l, max_deliveries, nil, 'lost', tonumber(l.ran))
  end
  Settle.workspace(ws)
  Shard.count_in_all('leases_expired', 1)
  Activity.expired(l)
  if l.early then Explain.count(l.workspace, { 'lost' }) end
end

function Leases.release(l, due, counted, seconds, max_deliveries, declined)
  local is_refunded = not (counted or declined) and seconds == 0
  local worked = declined and Fairness.declined(Leases.held_for(l)) or Leases.worked(l, seconds)
  if l.cancelled then Leases.cancelled(l, counted and 'returned', worked) end
  local ws = Leases.drop(l)
  Leases.true_up(ws, l, worked, is_refunded)
  if counted and not l.cancelled then
    Leases.redeliver_counted(ws, l, max_deliveries, due, 'returned', worked)
  elseif not l.cancelled then
    Leases.redeliver(ws, l, l.deliveries - 1, due, declined and 'declined')
  end
  if due and declined then Wakeups.resign() end
  Settle.workspace(ws)
end

-- It has no permit of a limit wider than this shard: no rate counts it as a start. Its task is
-- closed here for so long, if that is what it has no permit of.
function Leases.refuse(l, seconds)
  local ws = Records.workspace(l.workspace)
  local own, limits = Limits.of_workspace(ws), Limits.of_task(l.task)
  if own.rate then ws.tat, ws.dirty = num(ws.tat - 1 / own.rate), true end
  if limits then TaskRates.give_back(ws.name, l.task, limits) end
  if limits and seconds > 0 then SharedLimitRecords.of('/' .. l.task).tat = now + seconds end
end

function Leases.reject(l, reason, seconds, details)
  if l.cancelled then Leases.remove_job(l) end
  local ws = Leases.drop(l)
  local worked = Leases.worked(l, seconds)
  Leases.true_up(ws, l, worked)
  if not l.cancelled then
    Leases.move_to_dead_letters(l, reason, 'rejected', worked, false, details)
  end
  Settle.workspace(ws)
end
