-- End a request, or let it wait no longer; its place goes to one that waits.
-- ARGV now ticket
-- ROUTE ticket
-- RETURNS 1; 0 if there was no such request
local _, ticket = unpack(ARGV)

if not Requests.drop(ticket) then return 0 end
Requests.start_waiting()
return 1
