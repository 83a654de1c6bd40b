-- COLD: One job that is taken out of where it waits.
-- Take one job out of its schedule or lane; false: it is in neither.
function Pluck.one(ws, queue, priority, element)
  if call('ZREM', K.scheduled(ws.name), concat({ queue, priority, element }, ' ')) == 1 then
    Timer.refresh_scheduled(ws)
    return true
  end
  for _, flow in ipairs(ws.flows) do
    local used = flow.queue == queue and Lanes.used(flow.lanes, priority)
    if used and call('LREM', K.lane(ws.name, flow.place, priority), 1, element) == 1 then
      Lanes.refresh(ws, flow, priority)
      return true
    end
  end
  return false
end

-- The same by its id, and for good: return its record, or nil if it waits nowhere.
function Pluck.by_id(queue, id)
  local record = call('HGET', K.jobs(queue), id)
  if not record then return end
  local name, task, priority = match(record, '^(%S+) (%S+) (%S+)')
  local ws, element = Workspaces.of(name), task .. ':' .. id
  if not Pluck.one(ws, queue, priority, element) then return end
  Drop.job(queue, element)
  Expiry.drop(ws, queue, priority, element)
  Settle.workspace(ws)
  return record
end
