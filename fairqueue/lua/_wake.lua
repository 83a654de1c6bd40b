-- One token per queue at most: there is one while open, runnable work has no claimer on its way.
local touched = {} -- queues whose token must be looked at

local function touch_all()
  for _, queue in ipairs(call('HKEYS', K.nodes())) do touched[queue] = true end
end

local function freed_shared(node)
  local limits, total = limits_of_node(node)
  if limits.concurrency then touched[node.queue] = true end
  if total.concurrency then touch_all() end
end

-- Wake one waiter of this queue, whether or not there is work yet.
local function alert(queue)
  if call('EXISTS', K.token(queue)) == 0 then call('RPUSH', K.token(queue), 1) end
end

local function wake()
  for queue in pairs(touched) do
    if call('ZCARD', K.ready(queue)) == 0 or not is_open(node_of(queue)) then
      call('DEL', K.token(queue))
    else
      alert(queue)
    end
  end
end

-- When the next thing happens by itself.
local function next_event()
  local lease = tonumber(call('ZRANGE', K.expiry(), 0, 0, 'WITHSCORES')[2])
  local timer = tonumber(call('ZRANGE', K.timer(), 0, 0, 'WITHSCORES')[2])
  if lease then lease = max(lease, tonumber(load_meta().grace) or 0) end
  return min(lease or math.huge, timer or math.huge)
end

-- One claimer watches for the next event; the others poll. An overdue watcher is replaced.
local function watch(owner, poll_seconds)
  local at, until_then = next_event(), tonumber(load_meta().watched) or 0
  local vacant = meta.watcher == owner or until_then < now - 1 or at < until_then
  if not vacant then return poll_seconds end
  local wait = max(0, min(at - now, poll_seconds))
  meta.watcher, meta.watched = owner, num(now + wait)
  return wait
end
