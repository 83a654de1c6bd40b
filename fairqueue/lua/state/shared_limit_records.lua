-- The record of a shared limit, of a task (/number) or a group (@name), in every queue; read once
-- and written once.
--   block tat timer [walk]
--   block: why its nodes are closed; timer: when its rate opens them, or when it walks on
--   walk: which nodes have not followed yet, see SharedLimits.next_nodes

function SharedLimitRecords.of(key)
  local shared = S.shared_limits[key]
  if shared then return shared end
  local text = call('HGET', K.shared_limits(), key) or '- 0 -'
  local block, tat, timer, walk = match(text, '^(%S+) (%S+) (%S+) ?(%S*)$')
  if not tonumber(tat) then
    Shard.set_aside('shared_limit', key, text)
    block, tat = '-', 0
  end
  shared = { key = key, tat = tonumber(tat), timer = tonumber(timer), before = text }
  if block ~= '-' then shared.block = block end
  if find(walk or '', '^[^<>]*[<>]') then shared.walk = walk end
  S.shared_limits[key] = shared
  return shared
end

function SharedLimitRecords.text(shared)
  local tat = shared.tat > now and num(shared.tat) or '0'
  local timer = shared.timer and num(shared.timer) or '-'
  return concat({ shared.block or '-', tat, timer, shared.walk }, ' ')
end

function SharedLimitRecords.save(shared)
  local text = SharedLimitRecords.text(shared)
  if text == shared.before then return end
  if text == '- 0 -' then
    call('HDEL', K.shared_limits(), shared.key)
  else
    call('HSET', K.shared_limits(), shared.key, text)
  end
end
