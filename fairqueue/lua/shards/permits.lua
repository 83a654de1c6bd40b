-- Permits of limits that are wider than a shard. Each such limit has a home, one of the first two
-- shards, and a job starts under it only with a permit from there. A permit is a lease: its owner
-- renews it with the lease of the job, and it ends by itself where the owner is gone. A limit is
-- named `scope:name`, as in total: or queue:mail or task:mails.send.
--   permits: permit by its end, of one limit; and `! tat ask ask ...` by -1
--     tat: the theoretical arrival time of its rate
--     ask: `turn:since:until` of each that was refused
-- Those that were refused take turns: a queue where the total is full, a shard where a task is.
-- What is free belongs to those that asked first, until their asks are too old.
local REFUSED_SECONDS = 1 -- until one that was refused asks again, if nothing wakes it
local ASK_SECONDS = 2 -- for which an ask stands then
local OUTAGE = 0.4 -- of the life of a permit: it outlives a shorter time in which no script ran
local KEPT_SECONDS = 604800 -- after their end, where none asks any more: longer than an outage
local ENDED_AT_ONCE = 100 -- permits that have ended which one call drops
local ADOPTED_SECONDS = 30 -- the life of a permit that was given to a job that runs
local ADOPTED_AT_ONCE = 1000

-- The limits wider than a shard under which a job of a queue and a task starts, `,` between them.
function Permits.needed(queue, task)
  if Shard.load().spread == ' ' or Limits.none_is_set() then return nil end
  local limits, total = Limits.of_queue(Records.node(queue))
  local of_task, needed = Limits.of_task(task), {}
  if total.whole_concurrency then insert(needed, 'total:') end
  if limits.whole_concurrency then insert(needed, 'queue:' .. queue) end
  if of_task and (of_task.whole_concurrency or of_task.whole_rate) then
    insert(needed, 'task:' .. task)
  end
  return needed[1] and concat(needed, ',')
end

function Permits.of(limit)
  local scope, name = match(limit, '^(%a+):(.*)$')
  local limits = scope == 'total' and Limits.of_total()
    or scope == 'queue' and Limits.of_queue({ queue = name }) or Limits.of_task(name) or {}
  local key = K.permits(scope, name)
  local text = call('ZRANGEBYSCORE', key, '-1', '-1')[1]
  local p = { scope = scope, name = name, key = key, text = text, asks = {},
    tat = tonumber(match(text or '', '^! (%S+)') or 0),
    most = limits.whole_concurrency, rate = limits.whole_rate, burst = limits.whole_burst or 1 }
  if p.rate then p.tat = Fairness.tat_under(p.tat, now, p.rate, p.burst) end
  for turn, since, until_then in gmatch(text or '', ' ([^ :]+):(%S+):(%S+)') do
    if tonumber(until_then) > now then
      insert(p.asks, { turn = turn, since = since, until_then = until_then })
    end
  end
  return p
end

-- Permits that have ended go, but for those that could not be renewed while this shard was away.
function Permits.drop_ended(p, seconds)
  local ended = now
  for _, gap in ipairs(Tick.gaps()) do
    if gap.back - gap.away > OUTAGE * seconds and now < gap.back + seconds then
      ended = min(ended, gap.away)
    end
  end
  local permits = call('ZRANGEBYSCORE', p.key, '0', num(ended), 'LIMIT', '0', ENDED_AT_ONCE)
  if permits[1] then call('ZREM', p.key, unpack(permits)) end
end

-- How many more may start now, if this many run.
function Permits.room(p, used)
  local below = math.huge
  if p.most then below = max(0, p.most - (used or call('ZCOUNT', p.key, '0', '+inf'))) end
  if not p.rate then return below end
  return min(below, Room.starts_of(p, p.tat))
end

-- How many others asked before this turn.
function Permits.before(p, turn)
  for i, ask in ipairs(p.asks) do
    if ask.turn == turn then return i - 1 end
  end
  return #p.asks
end

function Permits.put(p, permits, seconds)
  for _, permit in ipairs(permits) do call('ZADD', p.key, num(now + seconds), permit) end
  Permits.keep(p, seconds)
end

-- Permits of jobs that ran before their limit came. Until its next renewal an owner does not know
-- of them, and frees none where a job ends. So an owner that is refused looks which have ended.
function Permits.adopted(p)
  local soon = num(now + ADOPTED_SECONDS)
  local permits = call('ZRANGEBYSCORE', p.key, num(now), soon, 'LIMIT', '0', ADOPTED_AT_ONCE)
  local adopted = {}
  for _, permit in ipairs(permits) do
    if find(permit, ':', 1, true) then insert(adopted, permit) end
  end
  return concat(adopted, ',')
end

-- What is left of a limit for which none asks any more expires.
function Permits.keep(p, seconds)
  call('EXPIRE', p.key, int(math.ceil(max(seconds, p.tat - now)) + KEPT_SECONDS))
end

-- Take as many of these permits as there is room for; return how many, and for how long one that
-- was refused waits at most. A permit that was taken before is the same.
function Permits.take(p, turn, permits, seconds)
  local taken, wanted = {}, {}
  for _, permit in ipairs(permits) do
    insert(call('ZSCORE', p.key, permit) and taken or wanted, permit)
  end
  local before, may = Permits.before(p, turn), Permits.room(p)
  may = max(0, min(#wanted, may - before))
  for i = 1, may do
    insert(taken, wanted[i])
    if p.rate then p.tat = Fairness.tat_after(p.tat, now, p.rate) end
  end
  Permits.put(p, taken, seconds)
  local ask = table.remove(p.asks, before + 1)
  if may == #wanted then return #permits, 0 end
  local asks = may == 0 or p.scope == 'task' -- an owner of the queue goes on with what it has
  local at = p.rate and Fairness.next_start(p.tat, p.rate, p.burst) + before / p.rate
  local wait = max(REFUSED_SECONDS, at and at - now or 0)
  if may > 0 or not ask then ask, before = { turn = turn, since = now_text }, #p.asks end
  ask.until_then = num(now + wait + ASK_SECONDS)
  if asks then insert(p.asks, before + 1, ask) end
  if p.scope ~= 'task' then call('DEL', K.permit_token(Permits.queue(p, turn))) end
  return #taken, at and at > now and at - now or REFUSED_SECONDS
end

-- The queue whose owners wait for this turn.
function Permits.queue(p, turn)
  return p.scope == 'queue' and p.name or turn
end

-- Wake an owner for each turn that may take what is free now; return those of a task, which its
-- shards open.
function Permits.wake(p)
  local opened, room = {}, #p.asks > 0 and Permits.room(p) or 0
  for i = 1, min(room, #p.asks) do
    local turn = p.asks[i].turn
    if p.scope == 'task' then
      insert(opened, turn)
    else
      local token = K.permit_token(Permits.queue(p, turn))
      if call('EXISTS', token) == 0 then call('RPUSH', token, '1') end
    end
  end
  return concat(opened, ',')
end

function Permits.save(p, seconds)
  local texts = { '!', p.tat > now and num(p.tat) or '0' }
  for _, ask in ipairs(p.asks) do
    insert(texts, concat({ ask.turn, ask.since, ask.until_then }, ':'))
  end
  local text = concat(texts, ' ')
  if text == '! 0' then text = nil end
  if text == p.text then return end
  if p.text then call('ZREM', p.key, p.text) end
  if text then call('ZADD', p.key, -1, text) end
  p.text = text
  Permits.keep(p, seconds)
end

-- A permit by which no job has started, `!` before it, does not count for a rate either.
function Permits.free(p, permits, seconds)
  for _, text in ipairs(permits) do
    local unused, permit = match(text, '^(!?)(.*)$')
    local is_freed = call('ZREM', p.key, permit) == 1
    if is_freed and unused ~= '' and p.rate then p.tat = p.tat - 1 / p.rate end
  end
  Permits.save(p, seconds)
end

-- Whether others wait for their turn, or for the time of its next start: then a permit that has
-- become free is not used again without asking.
function Permits.has_others(p, turn)
  return p.rate and 1 or #p.asks > (Permits.before(p, turn) < #p.asks and 1 or 0) and 1 or 0
end
