-- Add lines to the last ones that are noted of a kind; the oldest go.
-- ARGV now what lines count
-- ROUTE first
-- RETURNS 1
-- what: jobs, which have ended, or acts of operators, which are noted with their time
local _, what, lines, count = unpack(ARGV)
local MOST_DROPPED = 200 -- where fewer are kept than before, the next calls drop more

local before = what == 'acts' and now_text .. ' ' or ''
for line in gmatch(lines, '[^\n]+') do call('LPUSH', K.noted(what), before .. line) end
for _ = 1, min(MOST_DROPPED, call('LLEN', K.noted(what)) - count) do call('RPOP', K.noted(what)) end
return 1
