-- Cancel one job: it is removed where it waits; one that runs is signalled at its next renewal.
-- ARGV now workspace id
-- ROUTE workspace
-- RETURNS "removed", "signalled", or "not_found"
local _, _, id = unpack(ARGV)
local queue = Jobs.queue_of(id)

if Removal.by_id(queue, id) then return 'removed' end
local l = LeaseRecords.read(call('HGET', K.slots_of_queue(queue), id) or '')
if not l then return 'not_found' end
Leases.cancel(l)
return 'signalled'
