-- Whether the first of a group was let in here within the last one to two hours.
-- ARGV now group
-- RETURNS 1 or 0
-- WRITES nothing
local _, group = unpack(ARGV)

return Enqueue.is_admitted('0', group) and 1 or 0
