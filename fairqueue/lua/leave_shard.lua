-- A workspace that has got a parent elsewhere leaves for its shard, if it has no jobs here.
-- ARGV now workspace to looks
-- RETURNS 1; 0 where it has jobs, dead letters or requests here; -1 where it is a parent, and stays
-- looks: 1 to change nothing
local _, name, to, looks = unpack(ARGV)

if call('HEXISTS', K.moved(), '@' .. name) == 1 then return -1 end
local ws = Moves.workspace(name)
if Moves.has_jobs(ws) or call('EXISTS', K.requests_of_workspace(name)) == 1 then return 0 end
if looks == '1' then return 1 end
Moves.open_ways()
Moves.leave(ws, to)
return 1
