-- Dead jobs of these queues whose death nobody has told yet; each is this caller's for a while.
-- ARGV now queues n hold_seconds
-- RETURNS {workspace, id, letter, ...}
local _, queues, n, hold_seconds = unpack(ARGV)
n = tonumber(n)

local found = {}
for queue in gmatch(queues, '%S+') do
  local left = n - #found / 3
  for _, notice in ipairs(call('ZRANGEBYSCORE', K.untold(queue), '-inf', now_text, 'LIMIT', 0, left)) do
    local name, id = match(notice, '^(%S+) (%S+)$')
    call('ZADD', K.untold(queue), num(now + hold_seconds), notice)
    insert(found, name)
    insert(found, id)
    insert(found, call('HGET', K.dead(name), id))
  end
end
return found
