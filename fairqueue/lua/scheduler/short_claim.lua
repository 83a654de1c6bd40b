-- The short way of a claim: some jobs of one queue end and as many start as were asked for, of
-- workspaces that stand in that queue and nowhere else, and wait for no more than a slot of their
-- own limit.
--
-- It reads, plans and writes. One command reads what concerns several jobs. Then the finishes and
-- the starts are played in their order, in memory, see standings.lua. Last, each key is written
-- once, with what the general way would leave in it.
--
-- Nothing is written before all of it is planned. Where the plan meets what it does not provide for
-- it ends with nil, and the general way finds everything as it was. Where a command fails between
-- two writes, the rescue of the general way takes over what the plan had in its hands.
local MOST = 64 -- finishes, or starts, of a call that goes this way

-- Whether the shard waits for nothing else.
function ShortClaim.is_open(owner, queue, n)
  local meta = Shard.load()
  return n >= 1 and n <= MOST and not find(queue, ' ', 1, true) and meta.drain == '-'
    and offset == '0' and meta.beat ~= '0' and match(meta.watcher, '^!?(.*)$') ~= owner
    and not Shard.is_due() and meta.window == Shard.window(0, now)
end

-- Whether no limit applies but those of workspaces. Return the node of the queue, and when it was
-- resumed, as it stands there.
function ShortClaim.may_go(plan, n, finishes)
  local meta = S.meta
  local waits = call('EXISTS', K.limits(), K.indebted(plan.queue)) > 0
  if waits and not ShortClaim.waits_for_none(plan) then return nil end
  local _, ending = string.gsub(finishes, ':ack:', '')
  plan.heads = call('ZRANGE', K.ready(plan.queue), 0, ending + n - 1)
  if not (plan.heads[1] or plan.has_limits) then return nil end -- a freed slot opens a workspace
  plan.fence, plan.arrival = tonumber(meta.fence), tonumber(meta.arrival)
  return match(call('HGET', K.nodes(), plan.queue) or '', '^(%S+) (%S+) (%S+ %S+) %S+( ?~?[%d.]*)$')
end

-- The leases that the call ends, all of them by an ack of their owner.
function ShortClaim.read_leases(plan, finishes)
  local ended, tasks, averages, seen = plan.ended, plan.tasks, plan.averages, {}
  for fence, ending, seconds in gmatch(finishes, '(%d+):(%a+):(%S+)') do
    if ending ~= 'ack' or #ended == MOST then return nil end
    ended[#ended + 1] = { fence = fence, seconds = tonumber(seconds), text = false, id = false,
      workspace = false, task = false, charged = false, claimed = false }
  end
  if not ended[1] then return true end
  local texts = LeaseRecords.read_all(ended)
  for i = 1, #ended do
    local l = ended[i]
    local place, holder
    place, l.id, l.workspace, l.task, l.charged, l.claimed, holder = PlainRecords.lease_of(texts[i])
    if place ~= plan.queue or holder ~= plan.owner or seen[l.fence] then return nil end
    l.text, seen[l.fence] = texts[i], true
    if not averages[l.task] then tasks[#tasks + 1] = l.task end
    averages[l.task] = true
  end
  return true
end

-- The averages of the tasks of these leases.
function ShortClaim.read_averages(plan)
  local tasks = plan.tasks
  if not tasks[1] then return true end
  local texts = call('HMGET', K.tasks(), '', unpack(tasks))
  for i = 1, #tasks do
    plan.averages[tasks[i]] = tonumber(match(texts[i + 1] or '', '^%S+')) or false
  end
  plan.sum, plan.count = match(texts[1] or '', '^(%S+) (%S+)$')
  return plan.count
end

-- The workspaces whose leases end, and those at the head of the order, which may be the same.
function ShortClaim.read_workspaces(plan, n)
  local names, known, others = {}, plan.known, plan.others
  for i = 1, #plan.ended do
    local l = plan.ended[i]
    if not known[l.workspace] then names[#names + 1] = l.workspace end
    known[l.workspace] = true
  end
  local ending = #names
  local heads = plan.heads
  for i = 1, #heads do
    local name = heads[i]:sub(17)
    if not known[name] and #names < ending + n then names[#names + 1] = name end
  end
  if not names[1] then return nil end
  local texts = call('HMGET', K.workspaces(), unpack(names))
  for i = 1, #names do known[names[i]] = texts[i] end
  local tags = ending > 0 and call('ZMSCORE', K.finish(plan.queue), unpack(names, 1, ending))
  for i = 1, ending do
    local w = tags[i] and Standings.read(plan, names[i])
    if not w then return nil end
    w.finish_tag, plan.standings[i] = tonumber(tags[i]), w
  end
  for i = 1, #heads do
    local w = known[heads[i]:sub(17)]
    if type(w) ~= 'table' then
      others[#others + 1] = heads[i]
    elseif w.member ~= heads[i] then
      return nil
    end
  end
  return true
end

-- The workspace whose turn it is: of those that the plan has moved, or the next of the others.
function ShortClaim.next_in_order(plan)
  local other, standings = plan.other, plan.standings
  if not other and plan.others[plan.at] then
    other = Standings.read(plan, plan.others[plan.at]:sub(17))
    if not other or other.member ~= plan.others[plan.at] then return nil end
    plan.other, plan.at = other, plan.at + 1
  end
  local first = other
  for i = 1, #standings do
    local w = standings[i]
    if w.member
      and (not first or w.tag < first.tag or w.tag == first.tag and w.member < first.member) then
      first = w
    end
  end
  if first == other then standings[#standings + 1], plan.other = other, false end
  return first
end

-- Start the first job of the workspace whose turn it is.
function ShortClaim.start(plan)
  local w = ShortClaim.next_in_order(plan)
  if not w then return nil end
  local cost, since = w.cost, w.since
  local task, id = Jobs.task_and_id(w.name, plan.queue, Standings.start(plan, w))
  if not id then return nil end
  if plan.resumed_at and plan.resumed_at > tonumber(since) then since = plan.resumed:sub(3) end
  plan.fence = Shard.fence_after(plan.fence)
  plan.started[#plan.started + 1] = { fence = int(plan.fence), id = id, workspace = w.name,
    task = task, lane = w.lane, cost = cost, since = since, text = false,
    ends = false }
  return Standings.settle(plan, w)
end

-- The records of the jobs that start: each must be there, and none may run already. Return what the
-- owner is told.
function ShortClaim.read_jobs(plan, lease_seconds)
  local started, reply = plan.started, { 1, '', '0' }
  local records = Jobs.read_all(plan.queue, started)
  local running = call('HMGET', K.slots_of_queue(plan.queue), Words.of(started, 'id'))
  for i = 1, #started do
    local l = started[i]
    local deliveries = Jobs.deliveries_of(records[i])
    if running[i] or not deliveries then return nil end
    deliveries = int(deliveries + 1)
    l.text = PlainRecords.lease_text(plan.queue, l, plan.owner, deliveries, lease_seconds)
    reply[2 * i + 2] = l.fence .. ' ' .. l.id .. ' ' .. plan.queue .. ' ' .. deliveries
      .. ' ' .. l.since
    reply[2 * i + 3] = records[i]
  end
  return reply
end

-- Return the reply to the call; nil: the general way must answer it.
function ShortClaim.complete(plan, n, lease_seconds, finishes)
  local virtual_time, max_stride, starts, resumed = ShortClaim.may_go(plan, n, finishes)
  if not (starts and ShortClaim.read_leases(plan, finishes)
    and ShortClaim.read_workspaces(plan, n) and ShortClaim.read_averages(plan)) then return nil end
  plan.virtual_text, plan.starts = virtual_time, starts
  plan.resumed, plan.resumed_at = resumed, tonumber(match(resumed, '[%d.]+'))
  plan.virtual_time, plan.max_stride = tonumber(virtual_time), tonumber(max_stride)
  for i = 1, #plan.ended do
    local l = plan.ended[i]
    if not Standings.finish(plan, plan.known[l.workspace], l) then return nil end
  end
  for _ = 1, n do
    if not ShortClaim.start(plan) then return nil end
  end
  local is_ready = plan.other or plan.others[plan.at] -- something is, afterwards
  for i = 1, #plan.standings do is_ready = is_ready or plan.standings[i].member end
  if not is_ready or plan.has_debts and ShortClaim.passes_debts(plan) then return nil end
  return ShortClaim.read_jobs(plan, lease_seconds)
end

function ShortClaim.write_finishes(plan)
  local ended, means = plan.ended, {}
  for i = 1, #plan.tasks do
    local task = plan.tasks[i]
    means[#means + 1], means[#means + 2] = task, int(plan.averages[task]) .. ' ' .. now_text
  end
  call('ZREM', K.expiry(), Words.of(ended, 'fence'))
  LeaseRecords.remove_all(ended)
  for i = 1, #ended do call('SREM', K.slots(ended[i].workspace), ended[i].fence) end
  call('HDEL', K.slots_of_queue(plan.queue), Words.of(ended, 'id'))
  Jobs.remove_all(plan.queue, ended)
  call('SADD', K.ended(plan.window), Words.of(ended, 'id'))
  call('HSET', K.tasks(), '', int(plan.sum) .. ' ' .. int(plan.count), unpack(means))
end

-- Records stand between what leaves the order and what enters it: so after an error no member of it
-- is left that its record does not name.
function ShortClaim.write_order(plan)
  local queue, placed = plan.queue, {}
  for i = 1, #plan.standings do
    local w = plan.standings[i]
    w.tag_text, w.finish_tag = w.tag_text or int(w.tag), int(w.finish_tag)
    w.text = PlainRecords.workspace_text(w, queue)
    if w.member then placed[#placed + 1] = w end
    if w.taken > 0 then call('LPOP', K.lane(w.name, queue, w.lane), w.taken) end
  end
  Order.take_all(queue, plan.gone)
  call('HSET', K.workspaces(), Words.of(plan.standings, 'name', 'text'))
  if placed[1] then Order.put_all(queue, placed) end
  call('ZADD', K.finish(queue), Words.of(plan.standings, 'finish_tag', 'name'))
end

function ShortClaim.write(plan, number, lease_seconds)
  local meta, started, queue = Shard.load(), plan.started, plan.queue
  if plan.ended[1] then ShortClaim.write_finishes(plan) end
  ShortClaim.write_order(plan)
  call('HSET', K.slots_of_queue(queue), Words.of(started, 'id', 'fence'))
  LeaseRecords.write_all(started)
  local ends = Leases.end_of(lease_seconds)
  for i = 1, #started do
    local l = started[i]
    call('SADD', K.slots(l.workspace), l.fence)
    l.ends = ends
  end
  call('ZADD', K.expiry(), Words.of(started, 'ends', 'fence'))
  Shard.expect(now + lease_seconds)
  meta.fence, meta.arrival = started[#started].fence, int(plan.arrival)
  call('HSET', K.nodes(), queue, (plan.virtual_text or int(plan.virtual_time)) .. ' '
    .. int(plan.max_stride) .. ' ' .. plan.starts .. ' ' .. meta.fence .. plan.resumed)
  Tick.beat()
  Shard.save()
  Wakeups.alert(queue)
  local fences = concat({ Words.of(started, 'fence') }, ' ')
  Idempotency.keep(plan.owner, number, '|0|' .. fences, lease_seconds)
end

-- Return the reply; nil: the call must go the general way. Behind it, if that has begun and failed,
-- the error, and the plan for the rescue.
function ShortClaim.go(owner, number, queue, n, lease_seconds, finishes)
  if not ShortClaim.is_open(owner, queue, n) then return nil end
  local plan = { owner = owner, queue = queue, window = S.meta.window, has_limits = false,
    has_debts = false, fence = false, arrival = false, virtual_time = false, virtual_text = false,
    max_stride = false, starts = false, resumed = false, resumed_at = false, ended = {},
    started = {}, gone = {}, tasks = { nil }, heads = false,
    averages = {}, sum = false, count = false, known = {}, standings = {}, others = {}, at = 1,
    other = false }
  local done, reply = pcall(ShortClaim.complete, plan, n, lease_seconds, finishes)
  if not (done and reply) then return nil end
  local written, said = pcall(ShortClaim.write, plan, number, lease_seconds)
  if not written then return nil, said, plan end
  return reply
end

-- There are limits or debts: no limit may be other than of workspaces.
function ShortClaim.waits_for_none(plan)
  plan.has_debts = call('EXISTS', K.indebted(plan.queue)) == 1
  plan.has_limits = not Limits.none_is_set()
  return not plan.has_limits or Limits.are_of_workspaces(plan.queue)
end

-- Whether virtual time comes to a flow that is idle with a debt: it is to be forgotten.
function ShortClaim.passes_debts(plan)
  return call('ZCOUNT', K.indebted(plan.queue), '-inf', int(plan.virtual_time)) > 0
end

-- The short way of a claim has failed in the middle: what was planned is noted as the general way
-- notes it, and so is where the workspaces stand.
function ShortClaim.undo(plan, said)
  local meta = Shard.load()
  meta.fence, meta.arrival = int(max(tonumber(meta.fence), plan.fence)), int(plan.arrival)
  for _, leases in ipairs({ plan.ended, plan.started }) do
    for _, l in ipairs(leases) do insert(S.touched_leases, LeaseRecords.parse(l.fence, l.text)) end
  end
  for _, w in ipairs(plan.standings) do
    local ws = Records.workspace(w.name)
    ws.dirty = true
    for _, flow in ipairs(ws.flows) do
      local tag = flow.arrival and call('ZSCORE', K.ready(flow.node), Order.member_of(ws, flow))
      flow.tag = tag or flow.tag
    end
  end
  error(said, 0)
end
