-- Admit a request, let it wait for its turn, or reject it.
-- ARGV now ticket length waiting_most
-- ROUTE ticket MERGE own
-- RETURNS {} if it is in flight; {'waits'}, or {'waits', scope} where this call has made it wait
-- for a limit of that scope; {scope, limit, in flight here} if it is rejected
local _, ticket, length, waiting_most = unpack(ARGV)

local name = Requests.workspace_of(ticket)
if Shard.load().spread ~= ' ' then Shard.refuse_moved(name) end
Requests.expire()
if call('EXISTS', K.request_queue()) == 1 then
  Requests.settle(name) -- its limit may have been raised
  Requests.start_waiting()
end
if Requests.is_in_flight(ticket) then return {} end
if Requests.is_known(ticket) then return { 'waits' } end
local scope, limit, used = Requests.full(name, Requests.in_force)
local waiting = call('ZCARD', K.waiting_requests(name))
if not scope and waiting == 0 then
  Requests.enter(ticket, length)
  if Limits.of_workspace({ name = name }).would then Requests.observe(name) end
  Requests.start(ticket)
  return {}
end
if waiting >= tonumber(waiting_most) then return { scope or 'workspace', limit or 0, used or 0 } end
Requests.enter(ticket, length)
Requests.wait(ticket)
Requests.start_waiting()
if Requests.is_in_flight(ticket) then return {} end
return { 'waits', (Requests.full(name, Requests.in_force)) }
