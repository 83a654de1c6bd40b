-- Cancel one job that waits, and return it; one that runs goes on.
-- ARGV now queue id
-- ROUTE all MERGE found
-- RETURNS {} or {record}
local _, queue, id = unpack(ARGV)

local record = Removal.by_id(queue, id)
return { record }
