-- Finish what the owner sends, requeue what is due, and lease up to n jobs.
-- ARGV now owner number queues n lease_seconds max_deliveries poll_seconds finishes yield_first
-- RETURNS {1, lost, wait, "fence id queue deliveries", record, ...}, {-1} too late; behind the
-- wait, a blank and what could not be read, if there is any
local _, owner, number, queues, n, lease_seconds, max_deliveries, poll_seconds, finishes,
  yield_first = unpack(ARGV)


-- The short way, of one finish and one start in one queue: both workspaces are ready there and
-- nowhere else, and wait for nothing; no limit is set, and nothing is due. Before all of this is
-- known, nothing is written. What is written then is what the general way writes.
local failed
local done_fence, seconds = match(finishes, '^(%d+):ack:(%S+)$')
repeat
  if not done_fence or n ~= '1' or match(queues, ' ') then break end
  local queue, now = queues, tonumber(now_text)
  local kept = match(call('GET', K.claimer(owner)) or '0|', '^%d+')
  if #kept > #number or #kept == #number and kept >= number then break end
  local noted, raw = call('GET', K.meta())
  local fence, arrival, beat, gaps, watcher, watched, window = PlainRecords.shard_of(noted)
  if not window or window ~= Shard.window(0, now) or match(watcher, '^!?(.*)$') == owner then
    break
  end
  local since_beat = now - beat
  if since_beat < 0 or beat == '0' or call('EXISTS', K.limits()) == 1 then break end
  if call('ZCOUNT', K.expiry(), '-inf', now_text) + call('ZCOUNT', K.timer(), '-inf', now_text) > 0
  then break end
  local virtual_time, max_step, rest =
    match(call('HGET', K.nodes(), queue) or '', '^(%S+) (%S+) (%S+ %S+) %S+$')
  local lease = LeaseRecords.raw(done_fence)
  local place, id, name, task, charged, claimed, holder = PlainRecords.lease_of(lease)
  if not rest or place ~= queue or holder ~= owner then break end

  -- The finish: what it takes, and where its workspace stands then.
  raw = call('HGET', K.workspaces(), name)
  local lane_key, since, tag, at, cost, lane, estimates = PlainRecords.workspace_of(raw)
  if lane_key ~= queue then break end
  local known, own, others = match(estimates, '^(.-;' .. task .. '=)([^;]+)(.*)$')
  local averages = call('HMGET', K.duration_estimates(), task, 'all')
  local sum, count = match(averages[2] or '', '^(%S+) (%S+)$')
  if not (known and averages[1] and count) then break end
  local used, mean = tonumber(seconds), averages[1]
  local held = now - claimed
  used = Fairness.worker_seconds(used, held)
  local by = max(used, Fairness.FLOOR_SECONDS) - charged
  estimates = known .. num(Fairness.mean_after(own, used)) .. others
  mean = num(Fairness.mean_after(mean, used))
  local all = num(sum + used) .. ' ' .. int(count + 1)
  local member, moved = Order.member(at, name), tag + by

  -- The start: whose turn it is then, and its job.
  local two = call('ZRANGE', K.ready(queue), 0, 1, 'WITHSCORES')
  local head, score = two[1], two[2]
  if head == member then head, score = two[3], two[4] end
  score = head and tonumber(score)
  local is_own = not head or moved < score or moved == score and member < head
  local next_name, h_since, h_tag = name, since, moved
  local h_cost, h_lane, h_estimates = cost, lane, estimates
  if is_own then
    head = member
  else
    next_name = head:sub(17)
    local h_key, h_at
    raw = call('HGET', K.workspaces(), next_name)
    h_key, h_since, h_tag, h_at, h_cost, h_lane, h_estimates = PlainRecords.workspace_of(raw)
    if h_key ~= queue or Order.member(h_at, next_name) ~= head then break end
  end
  local list = K.lane(next_name, queue, h_lane)
  local elements = call('LRANGE', list, 0, 1)
  local element, following = elements[1], elements[2]
  if not following then break end
  local job_task, job_id = Jobs.task_and_id(element)
  local record = job_id and Jobs.read(queue, job_id)
  local deliveries = record and Jobs.deliveries_of(record)
  local expected = match(h_estimates, ';' .. Jobs.task_of(following) .. '=([^;]+)')
  if not deliveries or not expected or call('HEXISTS', K.slots_of_queue(queue), job_id) == 1 then
    break
  end
  local new_cost, start_tag, step = tonumber(expected), tonumber(h_tag), tonumber(h_cost)
  if new_cost < Fairness.FLOOR_SECONDS then
    new_cost, expected = Fairness.FLOOR_SECONDS, num(Fairness.FLOOR_SECONDS)
  end
  virtual_time = num(max(tonumber(virtual_time), start_tag))
  if call('ZCOUNT', K.indebted(queue), '-inf', virtual_time) > 0 then break end
  fence = int(max(tonumber(fence), now * 1000000) + 1)
  arrival = int(arrival + 1)
  deliveries = int(deliveries + 1)
  local started = PlainRecords.lease_text(queue, job_id, next_name, job_task, h_lane, h_cost, owner,
    deliveries, lease_seconds)
  local node = virtual_time .. ' ' .. num(Fairness.largest_step(tonumber(max_step), step)) .. ' '
    .. rest .. ' ' .. fence

  local function write(queue, name, id, task, mean, all, by, member, since, tag, at, cost, lane,
    estimates, next_name, head, list, job_id, fence, started, start_tag, h_since, h_tag, h_lane,
    h_estimates, new_cost, expected, arrival, node, window, meta)
    call('ZREM', K.expiry(), done_fence)
    LeaseRecords.remove(done_fence)
    call('SREM', K.slots_of_workspace(name), done_fence)
    call('HDEL', K.slots_of_queue(queue), id)
    Jobs.remove(queue, id)
    call('SADD', K.ended(window), id)
    call('HSET', K.duration_estimates(), task, mean, 'all', all)
    if by ~= 0 then
      call('ZINCRBY', K.finish(queue), num(by), name)
      tag = Order.move(queue, num(by), member)
    end
    call('LPOP', list)
    call('HSET', K.slots_of_queue(queue), job_id, fence)
    call('ZADD', K.expiry(), num(now_text + lease_seconds), fence)
    LeaseRecords.write(fence, started)
    call('SADD', K.slots_of_workspace(next_name), fence)
    Order.take(queue, head)
    call('ZADD', K.finish(queue), next_name == name and tag or h_tag, next_name)
    local new_tag = num(start_tag + new_cost)
    Order.put(queue, new_tag, Order.member(arrival, next_name))
    local text = PlainRecords.workspace_text(queue, h_since, new_tag, arrival, expected, h_lane,
      h_estimates)
    if next_name == name then
      call('HSET', K.workspaces(), name, text)
    else
      local other = PlainRecords.workspace_text(queue, since, tag, at, cost, lane, estimates)
      call('HSET', K.workspaces(), name, other, next_name, text)
    end
    call('HSET', K.nodes(), queue, node)
    call('SET', K.meta(), meta)
    if call('EXISTS', K.token(queue)) == 0 then call('RPUSH', K.token(queue), 1) end
    Idempotency.keep(owner, number, '|0|' .. fence, lease_seconds)
  end
  local kept_gaps = '' -- see sweep.lua
  for away, back in string.gmatch(gaps, '([^:,]+):([^,]+)') do
    if now < back + 2 * (back - away) then kept_gaps = kept_gaps .. ',' .. away .. ':' .. back end
  end
  if since_beat > Sweep.SHORTEST_GAP then
    kept_gaps = kept_gaps .. ',' .. beat .. ':' .. now_text
  end
  gaps = kept_gaps == '' and '-' or kept_gaps:sub(2)
  local meta = PlainRecords.shard_text(fence, arrival, gaps, watcher, watched, window)
  local done, said = pcall(write, queue, name, id, task, mean, all, by, member, since, tag, at,
    cost, lane, estimates, next_name, head, list, job_id, fence, started, start_tag, h_since, h_tag,
    h_lane, h_estimates, new_cost, expected, arrival, node, window, meta)
  if done then
    return { 1, '', '0', fence .. ' ' .. job_id .. ' ' .. queue .. ' ' .. deliveries, record }
  end
  failed = { said = said, leases = { [done_fence] = lease, [fence] = started }, fence = fence,
    arrival = arrival, names = { name, next_name }, job = { next_name, queue, h_lane, element } }
until true
-- LATER
if failed then Rescue.after_short_way(failed) end
n, max_deliveries, poll_seconds = tonumber(n), tonumber(max_deliveries), tonumber(poll_seconds)

-- The record has the rest. Few and flat values: reading each costs the client more than a command.
local function add(reply, l, record)
  insert(reply, concat({ l.fence, l.id, l.queue, int(l.deliveries) }, ' '))
  insert(reply, record)
end

local function kept_reply(reply)
  local lost, wait, fences = match(reply, '^([^|]*)|([^|]*)|(.*)$')
  local whole = { 1, lost, wait }
  for fence in gmatch(fences, '%d+') do
    local l = Leases.held(fence, owner)
    if l then add(whole, l, Jobs.read(l.queue, l.id)) end
  end
  return whole
end

local known = Idempotency.answered(owner, number)
if known == nil then return { -1 } end
if known then return kept_reply(known) end

-- The first write frees memory: a full Redis refuses a script only at a first write that grows.
if finishes == '' then call('DEL', K.claimer(owner)) end
local lost = Leases.finish_all(finishes, owner)

local from = {}
for queue in gmatch(queues, '%S+') do insert(from, queue) end

-- The queues that have runnable work. A queue that has none must not lend its turn to a neighbour.
local function candidates(below_reserve)
  if #from == 1 then return from end
  local found = {}
  for _, queue in ipairs(from) do
    if call('EXISTS', below_reserve and K.reserved(queue) or K.ready(queue)) == 1 then
      insert(found, queue)
    end
  end
  return found
end

local function was_served_before(one, other)
  local a, b = tonumber(Records.node(one).last_fence), tonumber(Records.node(other).last_fence)
  return a < b or a == b and one < other
end

-- The queue that was served longest ago is next, whichever claimer served it.
local function turn_of(queues)
  if #queues > 1 then table.sort(queues, was_served_before) end
  for _, queue in ipairs(queues) do
    local ws, flow = Select.runnable(Records.register(queue))
    if ws then return ws, flow end
  end
end

local function next_job()
  local ws, flow
  if #from > 1 and Limits.any('reserves') then ws, flow = turn_of(candidates(true)) end
  if not ws then ws, flow = turn_of(candidates(false)) end
  if ws then return Leases.grant(ws, flow, owner, lease_seconds) end
end

local reply, fences = { 1, lost, '0' }, {}
local function serve()
  Sweep.all(max_deliveries)
  while #fences < n do
    local l, record, has_passed = next_job()
    if not (l or has_passed) then break end
    if l then
      insert(fences, l.fence)
      add(reply, l, record)
    end
  end
end

local done, said = pcall(serve)
if not done then
  Rescue.put_off(said)
  serve()
end
Shard.at_work = false
for _, queue in ipairs(from) do Wakeups.touched[queue] = true end
Sweep.forget_idle_of(from, #fences > 0)
if #fences == 0 and n > 0 then
  for _, queue in ipairs(from) do Records.note_use(queue) end
  Cleanup.run()
end
if #fences < n then
  reply[3] = num(Wakeups.watch(owner, yield_first == '1', poll_seconds))
else
  Wakeups.unwatch(owner, from, poll_seconds)
end
Idempotency.keep(owner, number, concat({ lost, reply[3], concat(fences, ' ') }, '|'), lease_seconds)
if #Shard.aside > 0 then reply[3] = reply[3] .. ' ' .. Shard.told() end
return reply
