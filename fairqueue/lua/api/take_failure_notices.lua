-- Dead and cancelled jobs of these queues whose end is unreported; no other caller gets them soon.
-- ARGV now queues n hold_seconds
-- ROUTE turns MERGE taken
-- RETURNS {workspace, id, letter, ...}
local _, queues, n, hold_seconds = unpack(ARGV)
n = tonumber(n)

local found = {}
for queue in gmatch(queues, '%S+') do
  local left = n - #found / 3
  local due = call('ZRANGEBYSCORE', K.unreported(queue), '-inf', now_text, 'LIMIT', '0', left)
  for _, notice in ipairs(due) do
    local name, id = match(notice, '^(%S+) (%S+)$')
    call('ZADD', K.unreported(queue), num(now + hold_seconds), notice)
    insert(found, name)
    insert(found, id)
    insert(found, DeadLetters.read(name, id))
  end
end
return found
