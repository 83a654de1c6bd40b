-- Where workspaces stand while the short way of a claim is planned: each in one queue alone, ready
-- or at its own limit. The rules are those of settle.lua, order.lua and leases.lua.
--
-- A standing has the words of records.lua, and these:
--   tag_text: nil where its tag has moved; member: false where it is not in the ready set
--   finish_tag: false where the call needs none
--   taken: how many jobs the call has taken from its lane; element: the next one, once it was read
--   leases: how many it had before the call, once that was read; freed: how many of them have ended
local KNOWN_LIMITS =
  ' weight weighs burst concurrency capacity draining exempt named may_block '

-- nil: it does not stand as plainly as this.
function Standings.read(plan, name)
  local w = PlainRecords.workspace(name, plan.queue, plan.known[name])
  if not w then return nil end
  if plan.has_limits then
    if not Standings.limit(w) then return nil end
  elseif w.weight ~= '1' then
    return nil
  end
  plan.known[name] = w
  return w
end

-- It has a job, and enters the order unless it is at its limit. nil: what that job costs is not
-- known.
function Standings.settle(plan, w)
  if w.limits and Standings.is_full(w) then
    if w.state ~= 'at_limit' then w.state, w.since = 'at_limit', now_text end
    w.member, w.arrival = false, '-'
    return true
  end
  if w.member then return true end
  w.element = w.element or call('LINDEX', K.lane(w.name, plan.queue, w.lane), 0)
  local task = Jobs.task_of(w.element or '')
  local cost = task and Order.estimate_in(w.estimates, task)
  if not cost then return nil end
  cost = max(tonumber(cost), Fairness.FLOOR)
  local stride = Fairness.stride(cost, w.weight)
  local base = Fairness.base_of(w.state, plan.virtual_time, w.finish_tag, stride, plan.max_stride)
  plan.arrival = plan.arrival + 1
  w.cost, w.tag, w.tag_text, w.arrival = int(cost), base + stride, nil, int(plan.arrival)
  w.member = Order.member(w.arrival, w.name)
  if w.state ~= 'ready' then w.state, w.since = 'ready', now_text end
  return true
end

-- A lease of it ends: what the job has used is charged, and the slot is free.
function Standings.finish(plan, w, l)
  local mean = plan.averages[l.task]
  local own = Order.estimate_in(w.estimates, l.task)
  if not (own and mean) then return nil end
  local used = Leases.worked(l, l.seconds)
  w.estimates = Order.with_estimate(w.estimates, l.task, Fairness.estimate_after(own, used))
  plan.averages[l.task] = Fairness.estimate_after(mean, used)
  plan.sum, plan.count = plan.sum + used, plan.count + 1
  local by = Fairness.whole((max(used, Fairness.FLOOR) - l.charged) / w.weight)
  w.finish_tag = w.finish_tag + by
  if w.limits then w.freed = w.freed + 1 end
  if not w.member then return Standings.settle(plan, w) end
  w.tag, w.tag_text = w.tag + by, nil -- what is ready stays so where a slot gets free
  return true
end

-- Its first job starts. Return its element; nil: no other one waits behind it.
function Standings.start(plan, w)
  local lane, element, following = K.lane(w.name, plan.queue, w.lane), w.element, nil
  if element then
    following = call('LINDEX', lane, w.taken + 1)
  else
    local two = call('LRANGE', lane, w.taken, w.taken + 1)
    element, following = two[1], two[2]
  end
  if not following or w.cost == '0' or w.limits and Standings.is_full(w) then return nil end
  if w.tag > plan.virtual_time then plan.virtual_time, plan.virtual_text = w.tag, w.tag_text end
  plan.max_stride = Fairness.largest_stride(plan.max_stride, Fairness.stride(w.cost, w.weight))
  plan.gone[#plan.gone + 1] = w.member
  w.finish_tag, w.member, w.taken, w.element = w.tag_text or w.tag, false, w.taken + 1, following
  if w.limits and w.limits.capacity then Standings.note_start(w) end
  return element
end

-- Its own limits; nil: others apply as well, or another weight than its record has.
function Standings.limit(w)
  local limits = Limits.of_workspace(w)
  if limits ~= S.known_limits then
    for name in pairs(limits) do
      if not find(KNOWN_LIMITS, ' ' .. name .. ' ', 1, true) then return nil end
    end
    S.known_limits = limits -- most workspaces have the same
  end
  w.limits, w.freed, w.leases = limits, 0, false
  return limits.weight == tonumber(w.weight)
end

function Standings.is_full(w)
  local most = w.limits.concurrency
  if not most then return false end
  w.leases = w.leases or Limits.usage_of(w)
  return w.leases - w.freed + w.taken >= most
end

-- How fast a limited capacity drains.
function Standings.note_start(w)
  local at = {}
  at.last_start, at.start_interval = match(w.times, '^(%S+) (%S+)$')
  Leases.record_interval(at)
  w.times = at.last_start .. ' ' .. at.start_interval
end
