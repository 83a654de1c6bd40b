-- Cancel one job: it is removed where it waits; one that runs is signalled at its next renewal.
-- ARGV now queue id
-- ROUTE all MERGE found
-- RETURNS "removed", "signalled", or "not_found"
local _, queue, id = unpack(ARGV)

local function queue_of_job()
  for _, name in ipairs(queue ~= '' and { queue } or call('HKEYS', K.nodes())) do
    if call('HEXISTS', K.jobs(name), id) == 1 then return name end
  end
end

queue = queue_of_job()
if not queue then return 'not_found' end
if Removal.by_id(queue, id) then return 'removed' end
local l = LeaseRecords.read(call('HGET', K.slots_of_queue(queue), id) or '')
if not l then return 'not_found' end
Leases.cancel(l)
return 'signalled'
