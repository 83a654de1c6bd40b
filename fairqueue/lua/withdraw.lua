-- Take one job out of where it waits, and give it back; one that runs stays.
-- ARGV now queue id
-- RETURNS {} or {record}
local _, queue, id = unpack(ARGV)

local record = Pluck.by_id(queue, id)
if not record then return {} end
Wake.all()
Save.all()
return { record }
