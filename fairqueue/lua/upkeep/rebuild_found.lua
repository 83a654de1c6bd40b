-- What an operator's repair writes again, of that which the auditor has found. A finding is where
-- to look: each function looks once more, in the same step, and changes nothing that is sound. The
-- first argument is what the auditor knows beside the names. Each returns what was done, in a word.
local DAY_MICROSECONDS = 86400000000 -- a fence that is ahead by more was never issued
local KINDS_OF_RECORDS = { workspaces = 'workspace', shard = 'queue', inner_nodes = 'node',
  leases = 'lease', shared_limits = 'shared_limit' }
local TAKES_OUT = { slots_of_queue = 'HDEL', holes = 'HDEL', slots = 'SREM',
  nodes_of_shared_limit = 'SREM' }
local SIZE_OF = { hash = 'HLEN', set = 'SCARD', zset = 'ZCARD', list = 'LLEN', string = 'GET' }

function RebuildFound.workspace(_, name)
  local ws = Records.workspace(name)
  local _, estimates = string.gsub(ws.duration_estimates, ';', '')
  if estimates > Order.ESTIMATES_KEPT then ws.duration_estimates, ws.known_task = '', nil end
  Rebuild.workspace(ws)
  Settle.workspace(ws)
  return 'settled'
end

function RebuildFound.lane(_, name, lane_key, priority)
  local ws = Records.workspace(name)
  if ws.is_unread then Rebuild.workspace(ws) end
  if Rebuild.lane(ws, lane_key, priority) then
    local flow = Records.flow(ws, lane_key)
    if Lanes.holes_of(flow, priority) > 0 then Lanes.tidy(ws, flow, priority) end
    Records.register(flow.queue)
    S.touched_queues[flow.queue] = true
  else
    call('UNLINK', K.holes(name, lane_key, priority))
  end
  Settle.workspace(ws)
  return 'settled'
end

-- The record of a queue. One that is above all fences would keep it from being found at rest.
function RebuildFound.queue(queue)
  local node, newest = Records.register(queue), Shard.load().fence
  local last, running = tonumber(node.last_fence), call('HGETALL', K.slots_of_queue(queue))
  local highest = 0
  for i = 2, #running, 2 do highest = max(highest, tonumber(running[i]) or 0) end
  if last > newest or highest > last then node.last_fence = int(newest) end
  node.dirty, S.touched_queues[queue] = true, true
  node.least_debt = 0 -- the next claim looks
  call('DEL', K.token(queue)) -- it has one again if there is work
  return 'settled'
end

-- counts: members, weight and held as an inner node's record has them, and as they are. They are
-- added up from all records, so they hold only if the record still says the same.
function RebuildFound.node(counts, id)
  if not match(id, '[/@]') then
    call('HDEL', K.inner_nodes(), id)
    return RebuildFound.queue(id)
  end
  local b, found = Records.inner_node(id), {}
  for n in gmatch(counts, '%S+') do insert(found, tonumber(n)) end
  if #found == 6 and b.members == found[1] and b.total == found[2] and b.held == found[3] then
    b.members, b.total, b.held = found[4], found[5], found[6]
  end
  call('SADD', K.nodes_of_shared_limit(b.limit_key), id)
  Rebuild.stand(b, b)
  Settle.upwards(b)
  return 'settled'
end

function RebuildFound.shared_limit(_, key)
  local shared = SharedLimitRecords.of(key)
  call('ZREM', K.timer(), key)
  shared.timer = nil
  Settle.shared_limit(key, true)
  return 'settled'
end

-- A record that the auditor cannot read is set aside, if it is still the same. Scripts are less
-- strict where they do not look at a number.
function RebuildFound.record(text, kind, name)
  if call('HGET', K[kind](), name) ~= text then return end
  Shard.set_aside(KINDS_OF_RECORDS[kind], match(name, '[^:]*$'), text)
  call('HDEL', K[kind](), name)
  return 'set_aside'
end

-- A key that holds something of another type than this stops every script that needs it; another
-- one expires and should not, or is not in use any more.
function RebuildFound.key(how, ...)
  local key = P .. concat({ ... }, ':')
  if SIZE_OF[how] and pcall(call, SIZE_OF[how], key) then return end
  call(how == 'persist' and 'PERSIST' or 'UNLINK', key)
  return 'removed'
end

-- A dead letter stands in the order by age, and that of a cancelled job has its notice.
function RebuildFound.letter(_, name, id)
  local letter = DeadLetters.read(name, id)
  local died = letter and tonumber(DeadLetters.death_of(letter) or nil)
  if DeadLetters.is_of_steps(name) then died = died and Steps.lines_of(letter) and died end
  if letter and not died then
    Shard.set_aside('letter', name .. ' ' .. id, letter)
    call('HDEL', K.dead_letters(name), id)
  end
  if not died then
    call('ZREM', K.dead_letters_by_age(name), id)
  else
    call('ZADD', K.dead_letters_by_age(name), num(died), id)
    if DeadLetters.is_of_cancelled(name) then
      call('ZADD', K.unreported(DeadLetters.queue_of(letter)), now_text, name .. ' ' .. id)
    end
  end
  DeadLetters.list_workspace(name)
  return 'written'
end

-- The shard's own record starts again where it cannot be read: see base.lua.
function RebuildFound.shard()
  Tick.beat()
  local meta = Shard.load()
  meta.due, meta.rebuild_at = 0, 0
  return 'written'
end

-- A lease that has no job, or whose fence no claim can have issued, ends.
function RebuildFound.is_over(l)
  local fence, now_micros = tonumber(l.fence), now * 1000000
  return not Jobs.deliveries_of(Jobs.read(l.queue, l.id) or nil)
    or fence > now_micros + DAY_MICROSECONDS
    or tonumber(l.claimed) <= now and fence <= l.claimed * 1000000
end

-- It holds its slots at every level, and no longer than its length.
function RebuildFound.complete(l)
  local meta, ends = Shard.load(), call('ZSCORE', K.expiry(), l.fence)
  ends = ends and Fairness.seconds(ends)
  meta.fence = max(meta.fence, tonumber(l.fence))
  if tonumber(l.claimed) > now then l.claimed = now_text end
  Tick.beat()
  if not ends or ends > now + l.length then ends = now + l.length end
  if l.ended and tonumber(l.ended) >= ends then l.ended = nil end
  LeaseRecords.keep_until(l.fence, ends)
  LeaseRecords.save(l)
  local ws = Records.workspace(l.workspace)
  call('SADD', K.slots(l.workspace), l.fence)
  ws.usage = false
  call('HSET', K.slots_of_queue(l.queue), l.id, l.fence)
  RebuildFound.queue(l.queue)
  local flow = Records.flow(ws, l.lane_key)
  -- its flow is there while it runs
  flow.finish_tag = flow.finish_tag or int(Records.node(flow.node).virtual_time)
  Settle.shared_limits(SharedLimits.move('SADD', ws, l))
  Settle.workspace(ws)
end

function RebuildFound.lease(_, fence)
  local l = LeaseRecords.read(fence)
  if not l then
    l = Tick.lost_lease(fence)
    call('ZREM', K.expiry(), fence)
    return l and RebuildJobs.end_lease(l) or 'ended'
  end
  if RebuildFound.is_over(l) then return RebuildJobs.end_lease(l) end
  local other = RebuildJobs.lease_of(l.queue, l.id)
  if other and other.fence ~= fence then
    RebuildJobs.remove_lease(l)
    return 'ended'
  end
  RebuildFound.complete(l)
  return 'completed'
end

-- A schedule whose record can be read is looked at when it is due.
function RebuildFound.schedule(_, workspace, name)
  local r = Schedules.read(workspace, name)
  if r then Schedules.place(r) end
  return r and 'ordered' or 'set_aside'
end

-- An entry that no record claims goes; a record that claims it by now is written to it again. Of a
-- lane more elements may be marked than are there, which would make holes of jobs that come later.
function RebuildFound.entry(_, kind, ...)
  local names = { ... }
  local member = table.remove(names)
  local of, id = match(member, '^(%S+) (%S+)$')
  if kind == 'unreported' and id and DeadLetters.read(of, id) then return end
  if kind == 'requests_of_workspace' then
    return Requests.end_of(member) == 0 and Requests.drop(member) and 'removed' or nil
  end
  local key = P .. concat({ kind, unpack(names) }, ':')
  local fence = kind == 'slots_of_queue' and call('HGET', key, member) or member
  call(TAKES_OUT[kind] or 'ZREM', key, member)
  if find(kind, '^slots') and LeaseRecords.read(fence) then RebuildFound.lease('', fence) end
  if kind == 'indebted' then RebuildFound.stand(member) end
  local queue, _, element = Jobs.read_entry(member)
  local job = kind == 'expiring' and queue and Jobs.id_of(names[1], queue, element)
  if job then RebuildJobs.job(queue, job) end
  return 'removed'
end

function RebuildFound.stand(name)
  if not match(name, '[/@]') then return RebuildFound.workspace('', name) end
  if call('HEXISTS', K.inner_nodes(), name) == 1 then RebuildFound.node('', name) end
end

-- A job that the auditor has found in these places: "kind workspace lane_key priority element" in
-- lines.
function RebuildFound.job(places, queue, id)
  local found = {}
  for place in gmatch(places, '[^\n]+') do
    local kind, name, lane_key, priority, element = match(place, '^(%S+) (%S+) (%S+) (%S+) (.*)$')
    if kind ~= 'lease' then insert(found, { kind, name, lane_key, priority, element }) end
  end
  local done = RebuildJobs.job(queue, id, found)
  if done == 'placed' then Records.register(queue) end
  return done
end
