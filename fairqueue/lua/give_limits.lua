-- Keep what a limit provider says of a workspace: above what is configured, below what is set live.
-- ARGV now workspace text
-- RETURNS 1 if it said another thing before, else 0
local _, name, text = unpack(ARGV)

local field = 'given:workspace:' .. name
call('ZADD', K.asked(), now_text, name)
if (call('HGET', K.limits(), field) or '') == text then return 0 end
if text == '' then call('HDEL', K.limits(), field) else call('HSET', K.limits(), field, text) end
if match(text, 'reserve=') then call('HSET', K.limits(), 'reserves', 1) end
if match(text, 'capacity=') then call('HSET', K.limits(), 'capacity', 1) end

Settle.workspace(Workspaces.of(name))
Groups.change(name)
Wake.all()
Save.all()
return 1
