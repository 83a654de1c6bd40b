-- COLD: Idempotency keys of a workspace and task: one publish at a time counts under each.
local LOOKED_AT = 3 -- keys that no longer count go by and by: some are looked at with every new one

function Unique.is_alive(queue, id)
  return call('HEXISTS', K.jobs(queue), id) == 1
end

function Unique.forget(queue, id)
  local field = call('HGET', K.keyed(), queue .. ' ' .. id)
  if not field then return end
  call('HDEL', K.keyed(), queue .. ' ' .. id)
  call('HDEL', K.unique(), field)
end

function Unique.sweep()
  for _, field in ipairs(call('HRANDFIELD', K.unique(), LOOKED_AT)) do
    local queue, id, until_then = match(call('HGET', K.unique(), field), '^(%S+) (%S+) (%S+)$')
    local dead = call('HEXISTS', K.dead(match(field, '^[^:]+')), id) == 1
    if not dead and tonumber(until_then) <= now and not Unique.is_alive(queue, id) then Unique.forget(queue, id) end
  end
end

-- The id of the job that holds the key, or nil; and whether the job that held it is dead.
-- A key counts while its job lives, or, with a time of its own, for that time and no longer.
function Unique.holder(field)
  local held = call('HGET', K.unique(), field)
  if not held then return nil, false end
  local queue, id, until_then = match(held, '^(%S+) (%S+) (%S+)$')
  if call('HEXISTS', K.dead(match(field, '^[^:]+')), id) == 1 and not Unique.is_alive(queue, id) then
    return nil, true
  end
  local counts
  if until_then == '0' then counts = Unique.is_alive(queue, id) else counts = now < tonumber(until_then) end
  return counts and id or nil, false
end

function Unique.take(field, queue, id, seconds)
  local held = call('HGET', K.unique(), field)
  if held then Unique.forget(match(held, '^(%S+) (%S+)')) end
  call('HSET', K.unique(), field, concat({ queue, id, seconds == '-' and '0' or num(now + seconds) }, ' '))
  call('HSET', K.keyed(), queue .. ' ' .. id, field)
  Unique.sweep()
end
