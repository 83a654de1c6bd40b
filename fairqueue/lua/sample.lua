-- The workspaces of some jobs of a queue, which are chosen at random.
-- ARGV now queue count
-- ROUTE all MERGE own
-- RETURNS {workspace, ...}: one for each job
-- WRITES nothing
local _, queue, count = unpack(ARGV)

local ids, found = call('HRANDFIELD', K.jobs(queue), count), {}
local records = #ids > 0 and call('HMGET', K.jobs(queue), unpack(ids)) or {}
for _, record in ipairs(records) do insert(found, record and match(record, '^%S+') or nil) end
return found
