-- Cancel one job: gone at once where it waits; where it runs, its worker is told when it renews.
-- ARGV now queue id
-- RETURNS "gone", "told", or "unknown"
local _, queue, id = unpack(ARGV)

local function queue_of_job()
  for _, name in ipairs(queue ~= '' and { queue } or call('HKEYS', K.nodes())) do
    if call('HEXISTS', K.jobs(name), id) == 1 then return name end
  end
end

queue = queue_of_job()
if not queue then return 'unknown' end
if Pluck.by_id(queue, id) then
  Wake.all()
  Save.all()
  return 'gone'
end
local name = match(call('HGET', K.jobs(queue), id), '^%S+')
for _, fence in ipairs(call('SMEMBERS', K.slots_of_workspace(name))) do
  local l = Lease.at(fence)
  if l.queue == queue and l.id == id then Drop.running(l) end
end
return 'told'
