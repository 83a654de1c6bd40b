-- Store what a limit provider says of a workspace.
-- It overrides configured limits, and live limits override it. The answer to an older question than
-- the last one is ignored; an answer from before the limits were expired counts until the next one.
-- ARGV now workspace text age_seconds
-- ROUTE workspace MERGE own
-- RETURNS 1 if this changed the limits, else 0
local _, name, text, age_seconds = unpack(ARGV)

Shard.refuse_moved(name)
local field = 'provider:workspace:' .. name
local put, known = now - age_seconds, tonumber(call('ZSCORE', K.asked(), name) or 0)
if put < known and known <= now then return 0 end -- ahead of now: the clock was set back
if put >= -known then call('ZADD', K.asked(), num(put), name) end
if (call('HGET', K.limits(), field) or '') == text then return 0 end
Limits.put(field, text)

Settle.workspace(Records.workspace(name))
Settle.group_changed(name)
return 1
