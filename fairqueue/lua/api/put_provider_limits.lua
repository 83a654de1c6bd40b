-- Store what a limit provider says of a workspace.
-- It overrides configured limits, and live limits override it. The answer to an older call than
-- the last one is ignored. Old answers of workspaces that have nothing are forgotten, a few a call.
-- ARGV now workspace text age_seconds keep_seconds
-- ROUTE workspace MERGE own
-- FULL refused
-- RETURNS 1 if this changed the limits, else 0
local _, name, text, age_seconds, keep_seconds = unpack(ARGV)
local LOOKED_AT = 8

Shard.refuse_moved(name)
local old = call('ZRANGEBYSCORE', K.asked(), '-inf', num(now - keep_seconds), 'LIMIT', 0, LOOKED_AT)
for _, other in ipairs(old) do
  if call('HEXISTS', K.workspaces(), other) == 0 then
    Limits.forget_answer(other)
  else -- looked at again much later
    call('ZADD', K.asked(), num(now - keep_seconds / 2), other)
  end
end

local field = 'provider:workspace:' .. name
local put, known = now - age_seconds, tonumber(call('ZSCORE', K.asked(), name) or 0)
if put < known and known <= now then return 0 end -- ahead of now: the clock was set back
call('ZADD', K.asked(), num(put), name)
if (call('HGET', K.limits(), field) or '') == text then return 0 end
Limits.put(field, text)

Settle.workspace(Records.workspace(name))
Settle.group_changed(name)
return 1
