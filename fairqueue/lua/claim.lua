-- Finish what the owner brings, bring back what is due, and lease up to n jobs.
-- ARGV now owner number queues n lease_seconds max_deliveries poll_seconds finishes shy
-- RETURNS {1, lost, wait, "fence id queue deliveries", record, ...}, {-1} too late
local _, owner, number, queues, n, lease_seconds, max_deliveries, poll_seconds, finishes, shy = unpack(ARGV)
n, lease_seconds, max_deliveries, poll_seconds = tonumber(n), tonumber(lease_seconds), tonumber(max_deliveries), tonumber(poll_seconds)

-- The record tells the rest. Few and flat values: reading each costs the client more than a command.
local function tell(reply, l, record)
  insert(reply, concat({ l.fence, l.id, l.queue, int(l.deliveries) }, ' '))
  insert(reply, record)
end

local function again(reply)
  local lost, wait, fences = match(reply, '^([^|]*)|([^|]*)|(.*)$')
  local whole = { 1, lost, wait }
  for fence in gmatch(fences, '%d+') do
    local l = Lease.at(fence)
    if l then tell(whole, l, call('HGET', K.jobs(l.queue), l.id)) end
  end
  return whole
end

local known = Repeat.answered(owner, number)
if known == nil then return { -1 } end
if known then return again(known) end

-- The first write frees memory: a full Redis refuses a script only at a first write that grows.
if finishes == '' then call('DEL', K.claimer(owner)) end
local lost = Ending.finish_all(finishes)
Sweep.all(lease_seconds, max_deliveries)

local from = {}
for queue in gmatch(queues, '%S+') do insert(from, queue) end

-- The queues that have something ready. Those that have not must not lend their turn to a neighbour.
local function candidates(below_reserve)
  if #from == 1 then return from end
  local found = {}
  for _, queue in ipairs(from) do
    if call('EXISTS', below_reserve and K.first(queue) or K.ready(queue)) == 1 then insert(found, queue) end
  end
  return found
end

-- Fences grow by one with every job, whoever takes it: so the turn passes on with each.
local function turn_of(open)
  for i = 0, #open - 1 do
    local ws, flow = Turn.runnable(Nodes.of(open[(Meta.load().fence + i) % #open + 1]))
    if ws then return ws, flow end
  end
end

local function next_job()
  local ws, flow
  if #from > 1 and Limits.any('reserves') then ws, flow = turn_of(candidates(true)) end
  if not ws then ws, flow = turn_of(candidates(false)) end
  if ws then return Lease.grant(ws, flow, owner, lease_seconds) end
end

local reply, fences = { 1, lost, '0' }, {}
while #fences < n do
  local l, record = next_job()
  if not l then break end
  insert(fences, l.fence)
  tell(reply, l, record)
end
for _, queue in ipairs(from) do
  Wake.touched[queue] = true
  if #fences > 0 then Settle.sweep_resting(Nodes.of(queue), Sweep.MOST) end
end
if #fences < n then reply[3] = num(Wake.watch(owner, shy == '1', poll_seconds)) else Wake.unwatch(owner, from, poll_seconds) end
Wake.all()
Save.all()
Repeat.answer(owner, number, concat({ lost, reply[3], concat(fences, ' ') }, '|'), lease_seconds)
return reply
