-- The numbers of some workspaces.
-- ARGV now names
-- ROUTE all MERGE own
-- RETURNS row, ...
-- row: {name, waiting, scheduled, running, limit, oldest, dead, pause, weight, counts}
-- WRITES nothing
local _, names = unpack(ARGV)

local function published(name, queue, element)
  local id = Jobs.id_of(name, queue, element)
  local record = id and Jobs.read(queue, id)
  return record and tonumber(Jobs.published_at(record))
end

local function oldest_of(ws)
  local oldest
  for _, flow in ipairs(ws.flows) do
    for priority in gmatch(flow.lanes, '%d+') do
      local at = published(ws.name, flow.queue, Lanes.first(ws, flow, priority))
      oldest = at and min(at, oldest or at) or oldest
    end
  end
  return oldest
end

local function row(name)
  local ws = Records.workspace(name)
  Flows.read_all(ws)
  local own = Limits.of_workspace(ws)
  local limits = own.would or own
  local scheduled, oldest = call('ZCARD', K.scheduled(name)), oldest_of(ws)
  return { name, Lanes.waiting_of(ws) - scheduled, scheduled, Limits.usage_of(ws),
    limits.concurrency and num(limits.concurrency) or '',
    oldest and num(now - oldest) or '', call('HLEN', K.dead_letters(name)),
    own.paused and 'paused' or own.draining and 'draining' or '', num(limits.weight),
    Explain.counts_of(name) }
end

local rows = {}
for name in gmatch(names, '%S+') do insert(rows, row(name)) end
return rows
