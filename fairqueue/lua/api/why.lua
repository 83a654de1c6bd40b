-- Why a job waits, or what a workspace has.
-- ARGV now workspace id
-- ROUTE workspace MERGE own
-- RETURNS {now, state, workspace, {fact...}, counts, {position...}, job, observed},
-- counts: {waiting, scheduled, running, dead}
-- id: workspace/queue/id; without a queue on any of them, also by its framework's id
-- job: {queue, id, head of its record, deliveries, progress, steps}; {}: it is not here
-- WRITES nothing
local _, name, id = unpack(ARGV)
local MOST = 10000 -- at most this many jobs of a lane are looked at
local queue, job = Jobs.queue_of(id), {}

local function counts_of(ws)
  local scheduled, dead = call('ZCARD', K.scheduled(ws.name)), call('HLEN', K.dead_letters(ws.name))
  return { Lanes.waiting_of(ws) - scheduled, scheduled, Limits.usage_of(ws), dead }
end

local function reply(state, facts, ws, positions)
  local counts = ws and counts_of(ws) or { 0, 0, 0, 0 }
  local observed = ws and Limits.of_workspace(ws).would
    and Explain.counts_of(ws.name)
  return { now_text, state, ws and ws.name or name, facts or {}, counts, positions or {}, job,
    observed }
end

local function of_lanes(ws, priority, element)
  local unseen = false
  for _, flow in ipairs(Flows.all(ws)) do
    local before = 0
    for p in gmatch(flow.queue == queue and flow.lanes or '', '%d+') do
      local at = p == priority and Explain.rank(ws, flow, p, element, MOST)
      local length = Lanes.length(ws, flow, p)
      if at then
        return reply('waiting', {}, ws, { Explain.position(ws, flow, element, before + at) })
      end
      if p == priority and length > MOST then unseen = { flow, before + MOST } end
      before = before + length
    end
  end
  return nil, unseen
end

local function describe(record, deliveries, progress)
  job = { queue, id, match(record or '', '^[^\n]*'), deliveries or 0, progress or '',
    Steps.told(name, id) }
end

local function of_job()
  local record = Jobs.read(queue, id)
  local _, task, priority = Jobs.identity_of(record)
  describe(record, Jobs.deliveries_of(record))
  local ws, element = Records.workspace(name), Jobs.element(task, id)
  local fence = call('HGET', K.slots_of_queue(queue), id)
  local l = fence and LeaseRecords.read(fence)
  if l then
    describe(record, l.deliveries, Running.progress_of({ fence })[1])
    local ends = call('ZSCORE', K.expiry(), fence)
    ends = ends and num(Fairness.seconds(ends)) or now_text
    return reply('running', { l.claimed, l.owner, ends }, ws)
  end
  local due = call('ZSCORE', K.scheduled(name), Jobs.entry(queue, priority, element))
  if due then return reply('scheduled', { due }, ws) end
  local found, unseen = of_lanes(ws, priority, element)
  if found then return found end
  return reply('waiting', {}, ws, { Explain.position(ws, unseen[1], element, unseen[2]) })
end

local function of_no_job()
  local letter = DeadLetters.read(name, id)
  if letter then
    local record = DeadLetters.record_of(letter)
    describe(record, Jobs.deliveries_of(record))
    return reply('dead', { DeadLetters.death_of(letter) }, Records.workspace(name))
  end
  return reply(Shard.has_ended(id) and 'ended' or 'unknown')
end

local function of_workspace()
  local ws, positions = Records.workspace(name), {}
  for _, flow in ipairs(Flows.all(ws)) do
    if flow.lanes ~= '' then insert(positions, Explain.position(ws, flow)) end
  end
  if #positions == 0 and ws.scheduled then return reply('scheduled', { num(ws.scheduled) }, ws) end
  return reply(#positions > 0 and 'waiting' or 'idle', {}, ws, positions)
end

if id == '' then return of_workspace() end
if name == '' then return reply('unknown') end
if queue ~= '' then
  return call('HEXISTS', K.jobs(queue), id) == 1 and of_job() or of_no_job()
end
local own = match(id, '[^/]*$')
local places, found = { Enqueue.retry_with(name, own) }, nil
for _, one in ipairs(Shard.queues()) do
  insert(places, concat({ name, one, own }, '/'))
end
for _, place in ipairs(places) do
  id, queue = place, Jobs.queue_of(place)
  if call('HEXISTS', K.jobs(queue), id) == 1 then return of_job() end
  local one = of_no_job()
  if not found or one[2] == 'dead' or found[2] == 'unknown' then found = one end
end
return found or reply('unknown')
