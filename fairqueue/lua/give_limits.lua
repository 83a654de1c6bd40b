-- Keep what a limit provider says of a workspace: above what is configured, below what is set live.
-- An answer to a question from before a later one counts no more; one from before the limits were
-- called old counts until it is asked again.
-- ARGV now workspace text age_seconds
-- RETURNS 1 if it said another thing before, else 0
local _, name, text, age_seconds = unpack(ARGV)

local field = 'given:workspace:' .. name
local put, known = now - age_seconds, tonumber(call('ZSCORE', K.asked(), name) or 0)
if put < known and known <= now then return 0 end -- beyond now: the clock was set back
if put >= -known then call('ZADD', K.asked(), num(put), name) end
if (call('HGET', K.limits(), field) or '') == text then return 0 end
if text == '' then call('HDEL', K.limits(), field) else call('HSET', K.limits(), field, text) end
if match(text, 'reserve=') then call('HSET', K.limits(), 'reserves', 1) end
if match(text, 'capacity=') then call('HSET', K.limits(), 'capacity', 1) end

Settle.workspace(Workspaces.of(name))
Groups.change(name)
Wake.all()
Save.all()
return 1
