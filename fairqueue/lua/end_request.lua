-- End a request, or let it wait no longer; its place goes to one that waits.
-- ARGV now ticket
-- ROUTE ticket
-- RETURNS 1; 0 if there was no such request
local _, ticket = unpack(ARGV)

local was_known = Requests.is_known(ticket)
if was_known then Requests.drop(ticket) end
Requests.expire()
Requests.start_waiting()
return was_known and 1 or 0
