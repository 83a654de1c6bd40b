-- The workspaces or tasks of some jobs of a queue, which are chosen at random.
-- ARGV now queue by count
-- ROUTE all MERGE own
-- RETURNS {name, ...}: one for each job
-- by: workspace or task
-- WRITES nothing
local _, queue, by, count = unpack(ARGV)
local name = by == 'task' and '^%S+ (%S+)' or '^%S+'

local ids, found = call('HRANDFIELD', K.jobs(queue), count), {}
local records = #ids > 0 and call('HMGET', K.jobs(queue), unpack(ids)) or {}
for _, record in ipairs(records) do insert(found, record and match(record, name) or nil) end
return found
