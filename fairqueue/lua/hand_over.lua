-- Move what waits on a queue into lists of another system in the same Redis, a few jobs of each workspace.
-- ARGV now queue lists cursor count each
-- RETURNS {cursor, moved}; the cursor is 0 when every workspace had its turn
local _, queue, lists, cursor, count, each = unpack(ARGV)
each = tonumber(each)
Hand.read_lists(lists)

local function from_lanes(ws)
  local n = 0
  for _, flow in ipairs(ws.flows) do
    while n < each and flow.queue == queue and flow.lanes ~= '' do
      Hand.over(ws, queue, (Lanes.pop(ws, flow)))
      n = n + 1
    end
  end
  return n
end

local function from_schedule(ws, most)
  local n = 0
  for _, member in ipairs(most > 0 and call('ZRANGE', K.scheduled(ws.name), 0, -1) or {}) do
    local of, element = match(member, '^(%S+) %S+ (.*)$')
    if n < most and of == queue then
      call('ZREM', K.scheduled(ws.name), member)
      Hand.over(ws, queue, element)
      n = n + 1
    end
  end
  if n > 0 then Timer.refresh_scheduled(ws) end
  return n
end

local following_cursor, fields = unpack(call('HSCAN', K.workspaces(), cursor, 'COUNT', count))
local moved = 0
for i = 1, #fields, 2 do
  local ws = Workspaces.of(fields[i])
  local n = from_lanes(ws)
  if ws.scheduled then n = n + from_schedule(ws, each - n) end
  Settle.workspace(ws)
  moved = moved + n
end
Wake.touched[queue] = true
Wake.all()
Save.all()
return { following_cursor, moved }
