-- One page of workspaces as they stand; the first page also has the queues and who only left dead.
-- ARGV now cursor count
-- RETURNS {cursor, {queue, depth}..., {name, waiting, scheduled, running, limit, oldest, dead, lost, observed}...}
local _, cursor, count = unpack(ARGV)

local function published(queue, element)
  local record = element and call('HGET', K.jobs(queue), match(element, '^%d+:(.*)$'))
  return record and tonumber(match(record, '^%S+ %S+ %S+ %S+ %S+ ([^/\n]+)'))
end

local function oldest_of(ws)
  local oldest
  for _, flow in ipairs(ws.flows) do
    for priority in gmatch(flow.lanes, '%d+') do
      local at = published(flow.queue, call('LINDEX', K.lane(ws.name, flow.place, priority), 0))
      oldest = min(at or math.huge, oldest or math.huge)
    end
  end
  return oldest
end

local function row(name)
  local ws = Workspaces.of(name)
  local limits = Limits.of(ws).would or Limits.of(ws)
  local scheduled, oldest = call('ZCARD', K.scheduled(name)), oldest_of(ws)
  return { name, Lanes.waiting_of(ws) - scheduled, scheduled, Settle.usage_of(ws),
    limits.concurrency and num(limits.concurrency) or '',
    oldest and num(now - oldest) or '', call('HLEN', K.dead(name)), call('HGET', K.lost(), name) or '0',
    call('HGET', K.observed(), name) or '' }
end

local queues, rows, seen = {}, {}, {}
local function add(name)
  if not seen[name] then insert(rows, row(name)) end
  seen[name] = true
end

local following_cursor, fields = unpack(call('HSCAN', K.workspaces(), cursor, 'COUNT', count))
for i = 1, #fields, 2 do add(fields[i]) end
if cursor == '0' then
  for _, queue in ipairs(call('HKEYS', K.nodes())) do insert(queues, { queue, Lanes.depth_of(queue) }) end
  for _, name in ipairs(call('ZRANGE', K.dead_workspaces(), 0, -1)) do add(name) end
  for _, name in ipairs(call('HKEYS', K.lost())) do add(name) end
  for _, name in ipairs(call('HKEYS', K.observed())) do add(name) end
end
return { following_cursor, queues, rows }
