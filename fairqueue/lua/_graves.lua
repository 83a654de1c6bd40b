-- COLD: Dead letters: kept with their reason, for a time and up to a number; live work is never touched.
local KEPT_SECONDS, KEPT_COUNT = 2592000, 10000 -- unless a process has brought others
local FADE_MOST = 32
local retention

-- nil in a field: no bound.
function Graves.retention()
  if retention then return retention end
  local seconds, count = match(call('GET', K.retention()) or '', '^(%S+) (%S+)$')
  retention = { seconds = KEPT_SECONDS, count = KEPT_COUNT }
  if seconds then retention = { seconds = tonumber(seconds), count = tonumber(count) } end
  return retention
end

function Graves.mark(name)
  local oldest = call('ZRANGE', K.graves(name), 0, 0, 'WITHSCORES')[2]
  if oldest then call('ZADD', K.dead_workspaces(), oldest, name) else call('ZREM', K.dead_workspaces(), name) end
end

-- A notice is for whoever waits for the job; who rejects one tells them by itself.
function Graves.add(name, queue, id, reason, deliveries, record, has_notice)
  Graves.take(name, id)
  call('HSET', K.dead(name), id, concat({ now_text, queue, reason, int(deliveries) }, ' ') .. '\n' .. record)
  call('ZADD', K.graves(name), now_text, id)
  if has_notice then call('ZADD', K.untold(queue), now_text, name .. ' ' .. id) end
  local most = Graves.retention().count
  local over = most and call('ZCARD', K.graves(name)) - most or 0
  if over > 0 then
    for _, old in ipairs(call('ZRANGE', K.graves(name), 0, min(over, FADE_MOST) - 1)) do Graves.take(name, old) end
  end
  Graves.mark(name)
end

-- The letter, its queue, and nobody keeps it any more; nil: there is none.
function Graves.take(name, id)
  local letter = call('HGET', K.dead(name), id)
  if not letter then return nil end
  local queue = match(letter, '^%S+ (%S+)')
  call('HDEL', K.dead(name), id)
  call('ZREM', K.graves(name), id)
  call('ZREM', K.untold(queue), name .. ' ' .. id)
  return letter, queue
end

-- Ids of one letter or of the oldest ones, skipping some; none that died after `until_then`.
function Graves.chosen(name, id, until_then, skip, count)
  if id ~= '' then return { id } end
  return call('ZRANGEBYSCORE', K.graves(name), '-inf', until_then, 'LIMIT', skip, count)
end

function Graves.fade(name)
  local seconds = Graves.retention().seconds
  if not seconds then return end
  local old = call('ZRANGEBYSCORE', K.graves(name), '-inf', num(now - seconds), 'LIMIT', 0, FADE_MOST)
  for _, id in ipairs(old) do Graves.take(name, id) end
  if #old > 0 then Graves.mark(name) end
end

function Graves.fade_all()
  local seconds = Graves.retention().seconds
  if not seconds then return end
  local names = call('ZRANGEBYSCORE', K.dead_workspaces(), '-inf', num(now - seconds), 'LIMIT', 0, 1)
  for _, name in ipairs(names) do Graves.fade(name) end
end
