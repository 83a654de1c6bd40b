-- Drop waiting and scheduled jobs of a queue, one page of workspaces; running ones go on.
-- ARGV now queue cursor count
-- RETURNS {cursor, dropped}
local _, queue, cursor, count = unpack(ARGV)

local function drop_job(element)
  return call('HDEL', K.jobs(queue), match(element, '^%d+:(.*)$'))
end

local function drop_lanes(ws, flow)
  local n = 0
  for priority in gmatch(flow.lanes, '%d+') do
    local lane = K.lane(ws.name, queue, priority)
    for _, element in ipairs(call('LRANGE', lane, 0, -1)) do n = n + drop_job(element) end
    call('DEL', lane)
  end
  flow.lanes, flow.head = '', nil
  return n
end

local function drop_scheduled(ws)
  local n = 0
  for _, member in ipairs(call('ZRANGE', K.scheduled(ws.name), 0, -1)) do
    local of, _, element = match(member, '^(%S+) (%S+) (.*)$')
    if of == queue then n = n + drop_job(element) * call('ZREM', K.scheduled(ws.name), member) end
  end
  Timer.refresh_scheduled(ws)
  return n
end

local following_cursor, fields = unpack(call('HSCAN', K.workspaces(), cursor, 'COUNT', count))
local dropped = 0
for i = 1, #fields, 2 do
  local ws = Workspaces.of(fields[i])
  dropped = dropped + drop_lanes(ws, Workspaces.flow_of(ws, queue))
  if ws.scheduled then dropped = dropped + drop_scheduled(ws) end
  Settle.workspace(ws)
end
Wake.touched[queue] = true
Wake.all()
Save.all()
return { following_cursor, dropped }
