-- Cancel one job that waits, and return it; one that runs goes on.
-- ARGV now workspace id
-- ROUTE workspace
-- RETURNS {} or {record}
local _, _, id = unpack(ARGV)

local record = Removal.by_id(Jobs.queue_of(id), id)
return { record }
