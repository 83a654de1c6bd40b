-- Workspaces for which the limit provider must be asked again; no other caller gets them soon.
-- One that has nothing is asked for only if its limits were expired, and its answer is forgotten
-- once every process must ask again.
-- ARGV now n older_seconds forget_seconds
-- ROUTE turns MERGE taken
-- RETURNS {name, ...}
local _, n, older_seconds, forget_seconds = unpack(ARGV)
local SEEN = 256 -- at most this many are looked at
n = tonumber(n)

local due =
  call('ZRANGEBYSCORE', K.asked(), '-inf', num(now - older_seconds), 'WITHSCORES', 'LIMIT', 0, SEEN)
local found = {}
for i = 1, #due, 2 do
  local name, asked = due[i], tonumber(due[i + 1])
  local is_old = math.abs(asked) <= now - forget_seconds
  if call('HEXISTS', K.workspaces(), name) == 1 or asked < 0 and not is_old then
    if #found >= n then break end
    insert(found, name)
    call('ZADD', K.asked(), now_text, name)
  elseif is_old then
    call('ZREM', K.asked(), name)
    Limits.put('provider:workspace:' .. name, '')
  end
end
return found
