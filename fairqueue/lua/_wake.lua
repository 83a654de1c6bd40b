-- One token per queue at most: there is one while open, runnable work has no claimer on its way.
Wake.touched = {} -- queues whose token must be looked at
Wake.due = {} -- when time will bring something to a queue

function Wake.touch_all()
  for _, queue in ipairs(call('HKEYS', K.nodes())) do Wake.touched[queue] = true end
end

function Wake.freed_shared(node)
  local limits, total = Limits.of_node(node)
  if limits.concurrency then Wake.touched[node.queue] = true end
  if total.concurrency then Wake.touch_all() end
end

-- Wake one waiter of this queue, whether or not there is work yet.
function Wake.alert(queue)
  if call('EXISTS', K.token(queue)) == 0 then call('RPUSH', K.token(queue), 1) end
end

function Wake.all()
  for queue in pairs(Wake.touched) do
    if call('ZCARD', K.ready(queue)) == 0 or not Limits.is_open(Nodes.of(queue)) then
      call('DEL', K.token(queue))
    else
      Wake.alert(queue)
    end
  end
  Wake.watcher()
end

-- What is due before the watcher looks again needs a new watcher; so it does if there is none.
function Wake.watcher()
  for queue, at in pairs(Wake.due) do
    local watched = tonumber(Meta.load().watched)
    if at < watched or watched < now then Wake.alert(queue) end
  end
end

-- When the next thing happens by itself.
function Wake.next_event()
  local lease = tonumber(call('ZRANGE', K.expiry(), 0, 0, 'WITHSCORES')[2])
  local timer = tonumber(call('ZRANGE', K.timer(), 0, 0, 'WITHSCORES')[2])
  local meta = Meta.load()
  if lease and lease > tonumber(meta.spared) then lease = max(lease, tonumber(meta.grace)) end
  return min(lease or math.huge, timer or math.huge)
end

-- One claimer watches for the next event; the others poll. An overdue watcher is replaced.
-- A shy one has turned jobs away of late: it looks a little later, and leaves its place to any other.
function Wake.watch(owner, shy, poll_seconds)
  local meta, at = Meta.load(), Wake.next_event()
  local until_then, name = tonumber(meta.watched), owner
  if shy then at, name = at + 0.1, '!' .. owner end
  local vacant = meta.watcher == name or until_then < now - 1 or at < until_then - 0.001
    or not shy and match(meta.watcher, '^!')
  if not vacant then return poll_seconds end
  local wait = max(0, min(at - now, poll_seconds))
  meta.watcher, meta.watched = name, num(now + wait)
  return wait
end

-- Nobody watches: who turned a job away must not be the first at it again.
function Wake.resign()
  local meta = Meta.load()
  meta.watcher, meta.watched = '-', '0'
end

-- A watcher that found work watches no more: another must, if a timer is due before the next poll.
function Wake.unwatch(owner, queues, poll_seconds)
  local meta = Meta.load()
  if meta.watcher ~= owner and meta.watcher ~= '!' .. owner then return end
  Wake.resign()
  local at = tonumber(call('ZRANGE', K.timer(), 0, 0, 'WITHSCORES')[2])
  if not at or at > now + poll_seconds then return end
  for _, queue in ipairs(queues) do Wake.due[queue] = at end
end
