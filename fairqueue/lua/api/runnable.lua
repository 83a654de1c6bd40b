-- What of a queue could run now: of some members of its ready set, from a rank on.
-- ARGV now queue from count
-- ROUTE all MERGE own
-- RETURNS {members, looked, is_whole, jobs, startable, oldest, room}
-- members of the ready set, and how many of them were looked at; is_whole: 1, or 0 where not all of
-- what stands in these was; their jobs that are runnable, and how many of these could start at
-- once; for how long the oldest of them has been runnable; how many more jobs the queue and the
-- total let start; '' where there is none
-- WRITES nothing
local _, queue, from, count = unpack(ARGV)
local left = tonumber(count) -- flows that this call looks at
local oldest, is_whole = nil, 1

local function note_wait(ws, flow, element)
  local id = Jobs.id_of(ws.name, queue, element)
  local record = id and Jobs.read(queue, id)
  local since = record and Jobs.waits_since(record)
  if not since then return end
  oldest = max(oldest or 0, now - max(since, tonumber(Order.runnable_since(flow))))
end

-- What came back goes first, and may have waited less than the first of the others.
local function note_waits(ws, flow, priority)
  note_wait(ws, flow, Lanes.first(ws, flow, priority))
  if Lanes.has_returned(flow, priority) then
    note_wait(ws, flow, call('LINDEX', K.lane(ws.name, flow.lane_key, priority), '0'))
  end
end

local function of_flow(ws, flow)
  local jobs = 0
  for priority in gmatch(flow.lanes, '%d+') do
    jobs = jobs + Lanes.length(ws, flow, priority)
    note_waits(ws, flow, priority)
  end
  return jobs, Room.take(ws, flow, jobs)
end

local of_members

-- Of a large node some members are looked at, and stand for all.
local function of_node(b)
  local members = call('ZCARD', K.ready(b.id))
  local looked, jobs, startable = of_members(b, 0, members)
  local times = looked > 0 and members / looked or 0
  if looked < members then is_whole = 0 end
  return jobs * times, Room.least(startable * times, Room.of_node(b)) or 0
end

-- What no record names is passed, since this changes nothing: a claim mends it.
local function of_member(node, member)
  left = left - 1
  local name = member:sub(17)
  if match(name, '[/@]') then
    if call('HEXISTS', K.inner_nodes(), name) == 1 then return of_node(Records.inner_node(name)) end
  else
    local ws = Records.workspace(name)
    for _, flow in ipairs(ws.flows) do
      if flow.node == node.id then return of_flow(ws, flow) end
    end
  end
  return 0, 0
end

function of_members(node, first, most)
  local looked, jobs, startable = 0, 0, 0
  for _, member in ipairs(call('ZRANGE', K.ready(node.id), first, first + min(left, most) - 1)) do
    if left < 1 then break end
    local its_jobs, its_startable = of_member(node, member)
    looked, jobs, startable = looked + 1, jobs + its_jobs, startable + its_startable
  end
  return looked, jobs, startable
end

local node = Records.node(queue)
if not Limits.is_open(node) then return { 0, 0, 1, '0', '0', '', '0' } end
local looked, jobs, startable = of_members(node, tonumber(from), left)
local limits, total = Limits.of_queue(node)
local below = limits.concurrency
  and limits.concurrency - call('HLEN', K.slots_of_queue(queue))
local room = Room.least(below, total.concurrency and total.concurrency - call('ZCARD', K.expiry()))
return { call('ZCARD', K.ready(queue)), looked, is_whole, num(jobs), num(startable),
  oldest and num(max(0, oldest)) or '', room and num(room) or '' }
