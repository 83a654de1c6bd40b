-- Renew requests for a lease. All that are named are in flight from now on, also above limits.
-- ARGV now tickets length
-- ROUTE ticket MERGE own
-- RETURNS the tickets whose workspaces have moved to another shard
local _, tickets, length = unpack(ARGV)

local ends, is_spread, moved = now + length, Shard.is_spread(), {}
for ticket in gmatch(tickets, '%S+') do
  local name = Requests.workspace_of(ticket)
  if is_spread and Shard.has_moved(name) then
    insert(moved, ticket)
  elseif Requests.start(ticket, ends) then
    Requests.settle(name)
  end
end
Requests.expire()
Requests.start_waiting()
return moved
