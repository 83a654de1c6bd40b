-- How many requests are in flight in all, and how many of a workspace are in flight and wait.
-- ARGV now workspace
-- ROUTE all MERGE sum
-- RETURNS {in all, in flight, waiting}
-- WRITES nothing
local _, name = unpack(ARGV)

return { Requests.running(), Requests.in_flight(name), Requests.waiting(name) }
