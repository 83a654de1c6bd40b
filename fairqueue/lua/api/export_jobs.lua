-- Move a queue's waiting jobs into another system's lists in the same Redis, page by page.
-- A cursor of digits goes through the lanes, workspace by workspace; one that begins with jobs:
-- goes through what is left, by its records: a schedule has the jobs of all queues.
-- ARGV now queue lists cursor count each
-- ROUTE all MERGE own
-- RETURNS {cursor, moved}; the cursor is 0 when every workspace, or record, had its turn
local _, queue, lists, cursor, count, each = unpack(ARGV)
each = tonumber(each)
Handover.read_lists(lists)

local function from_lanes(ws)
  local n = 0
  for _, found in ipairs(Flows.all(ws)) do
    local flow = found.queue == queue and Records.flow(ws, found.lane_key)
    while flow and n < each and flow.lanes ~= '' do
      local jobs = Lanes.take(ws, flow, each - n)
      for _, element in ipairs(jobs) do Handover.job(ws, queue, element) end
      n = n + #jobs
      if #jobs == 0 and not Shard.take_step() then return n end
    end
  end
  return n
end

local function lanes_page()
  local following_cursor, names = unpack(call('HSCAN', K.workspaces(), cursor, 'COUNT', count))
  local moved = 0
  for i = 1, #names, 2 do
    local ws = Records.workspace(names[i])
    moved = moved + from_lanes(ws)
    Settle.workspace(ws)
  end
  return { following_cursor, moved }
end

local function records_page(at)
  local following_cursor, moved = Handover.page(queue, at, count)
  return { following_cursor ~= '0' and 'jobs:' .. following_cursor or '0', moved }
end

S.touched_queues[queue] = true
local at = match(cursor, '^jobs:(%d+)$')
return at and records_page(at) or lanes_page()
