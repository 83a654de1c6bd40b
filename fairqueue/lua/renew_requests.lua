-- Renew an owner of requests for a lease. Requests that it names are in flight, also above limits.
-- ARGV now owner length tickets
-- ROUTE ticket MERGE own
-- RETURNS how many requests it has in flight or waiting
local _, owner, length, tickets = unpack(ARGV)

for ticket in gmatch(tickets, '%S+') do
  if not Requests.is_in_flight(ticket) then
    call('ZREM', K.waiting_requests(Requests.workspace_of(ticket)), ticket)
    Requests.enter(ticket, length)
    Requests.start(ticket)
    Requests.settle(Requests.workspace_of(ticket))
  end
end
local n = call('ZCARD', K.requests_of_owner(owner))
if n > 0 then call('ZADD', K.request_owners(), num(now + length), owner) end
Requests.expire()
Requests.start_waiting()
return n
