-- COLD: Jobs that expire: an entry each while they wait. The time stands in the record, after "published/".
function Expiry.time_of(record)
  return tonumber(match(record, '^%S+ %S+ %S+ %S+ %S+ [^/\n]*/(%S+)\n'))
end

function Expiry.refresh(ws)
  ws.expiring = tonumber(call('ZRANGE', K.expiring(ws.name), 0, 0, 'WITHSCORES')[2])
end

function Expiry.add(ws, queue, priority, element, at)
  call('ZADD', K.expiring(ws.name), num(at), concat({ queue, priority, element }, ' '))
  ws.expiring = min(ws.expiring or at, at)
end

-- It starts, or is dropped.
function Expiry.drop(ws, queue, priority, element)
  if call('ZREM', K.expiring(ws.name), concat({ queue, priority, element }, ' ')) == 1 then Expiry.refresh(ws) end
end

function Expiry.bury(ws, queue, element)
  local id = match(element, '^%d+:(.*)$')
  local record = call('HGET', K.jobs(queue), id)
  Graves.add(ws.name, queue, id, 'expired', tonumber(match(record, '^%S+ %S+ %S+ (%S+)')), record, true)
  call('HDEL', K.jobs(queue), id)
  Ended.add(id)
end

-- Bury what has expired, at most `most`; return how many. Settle the workspace then.
function Expiry.fire(ws, most)
  if not ws.expiring or ws.expiring > now then return 0 end
  local expired = call('ZRANGEBYSCORE', K.expiring(ws.name), '-inf', now_text, 'LIMIT', 0, most)
  for _, member in ipairs(expired) do
    local queue, priority, element = match(member, '^(%S+) (%S+) (.*)$')
    call('ZREM', K.expiring(ws.name), member)
    if Pluck.one(ws, queue, priority, element) then Expiry.bury(ws, queue, element) end
  end
  Expiry.refresh(ws)
  return #expired
end
