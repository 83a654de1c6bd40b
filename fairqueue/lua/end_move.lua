-- A workspace has moved: nothing of it is left here but where it has moved to.
-- ARGV now workspace to
-- RETURNS 1; 0: something of it is left that can move; -1: no workspace moves
local _, name, to = unpack(ARGV)

if not Moves.are_under_way() then return -1 end

local ws = Moves.workspace(name)
if Moves.has_jobs(ws) then return 0 end
for _, ticket in ipairs(call('ZRANGE', K.requests_of_workspace(name), 0, -1)) do
  Requests.drop(ticket) -- the caller of one that waits asks again, on the new shard
end
Moves.leave(ws, to)
return 1
