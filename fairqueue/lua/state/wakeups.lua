-- Which claimers are woken, and when. A queue has at most one token: there is one while it is open
-- and has runnable work, and no claimer is on its way.
local LOOK_SECONDS = 10 -- after which a call looks whether time has brought something anyway

-- Time brings something to this queue, at the earliest of what one script has told.
function Wakeups.expect(queue, at)
  S.due_queues[queue] = min(S.due_queues[queue] or at, at)
end

function Wakeups.touch_all()
  for _, queue in ipairs(Shard.queues()) do S.touched_queues[queue] = true end
end

-- A slot was freed: other workspaces may wait for it on this queue, or on any.
function Wakeups.slot_freed(node)
  if Limits.none_is_set() then return end
  local limits, total = Limits.of_queue(node)
  if limits.concurrency then S.touched_queues[node.queue] = true end
  if total.concurrency then S.slots_freed, S.total_limit = S.slots_freed + 1, total.concurrency end
end

-- The total was full and is not: every queue that has runnable work may go on. One whose freed slot
-- was taken again by the same script wakes no owner.
function Wakeups.touch_if_total_opened()
  local used = call('ZCARD', K.expiry())
  if used >= S.total_limit or used + S.slots_freed < S.total_limit then return end
  for _, queue in ipairs(Shard.queues()) do
    if call('EXISTS', K.ready(queue)) == 1 then S.touched_queues[queue] = true end
  end
end

-- Wake one waiter of this queue, whether or not there is work yet.
function Wakeups.alert(queue)
  if call('EXISTS', K.token(queue)) == 0 then call('RPUSH', K.token(queue), '1') end
end

-- Leave a token where there is runnable work, and take it away where there is none.
function Wakeups.settle_tokens()
  if S.slots_freed > 0 then Wakeups.touch_if_total_opened() end
  for queue in next, S.touched_queues do
    local ready, token = K.ready(queue), K.token(queue)
    local there = call('EXISTS', ready, ready, token) -- 2 of them are the work, 1 is the token
    if there > 0 then
      local is_open = there > 1
        and (Limits.none_is_set() or Limits.is_open(Records.node(queue)))
      if not is_open then
        call('DEL', K.token(queue))
      elseif there == 2 then
        call('RPUSH', token, '1')
      end
    end
  end
  Wakeups.alert_early()
end

-- What is due before the watcher looks again needs another watcher; so it does if there is none.
function Wakeups.alert_early()
  for queue, at in next, S.due_queues do
    local watched = Shard.load().watched
    if at < watched or watched < now then Wakeups.alert(queue) end
  end
end

-- Note when the next lease ends or the next timer goes off.
function Wakeups.look_ahead()
  local lease = call('ZRANGE', K.expiry(), '0', '0', 'WITHSCORES')[2]
  local timer = call('ZRANGE', K.timer(), '0', '0', 'WITHSCORES')[2]
  Shard.load().due = math.huge
  Shard.expect(min(lease and Fairness.seconds(lease) or math.huge, tonumber(timer or math.huge),
    now + LOOK_SECONDS))
end

-- When the next lease ends or the next timer goes off, or when to look again; later than the next
-- poll it is not exact.
function Wakeups.next_event(poll_seconds)
  local meta = S.meta or Shard.load()
  if meta.due < (now + poll_seconds) * 1000000 then Wakeups.look_ahead() end
  return min(meta.due / 1000000, S.look_again_at)
end

-- One claimer watches for the next event; the others poll. An overdue watcher is replaced.
-- One that yields has declined a job: it looks a little later, and any other may take its place.
function Wakeups.watch(owner, yields, poll_seconds)
  local meta, at = S.meta, Wakeups.next_event(poll_seconds)
  local until_then, name = meta.watched, owner
  if yields then at, name = at + 0.1, '!' .. owner end
  local vacant = meta.watcher == name or until_then < now - 1 or at < until_then - 0.001
    or not yields and match(meta.watcher, '^!')
  if not vacant then return poll_seconds end
  local wait = max(0, min(at - now, poll_seconds))
  meta.watcher, meta.watched = name, now + wait
  return wait
end

-- There is no watcher: a worker that declined a job must not be the first to see it again.
function Wakeups.resign()
  local meta = Shard.load()
  meta.watcher, meta.watched = '-', 0
end

-- A watcher that found work stops watching. If a timer is due before the next poll, another must
-- watch.
function Wakeups.unwatch(owner, queues, poll_seconds)
  local meta = Shard.load()
  if meta.watcher ~= owner and meta.watcher ~= '!' .. owner then return end
  Wakeups.resign()
  if meta.due > (now + poll_seconds) * 1000000 then return end
  local at = tonumber(call('ZRANGE', K.timer(), '0', '0', 'WITHSCORES')[2])
  if not at or at > now + poll_seconds then return end
  for _, queue in ipairs(queues) do Wakeups.expect(queue, at) end
end
