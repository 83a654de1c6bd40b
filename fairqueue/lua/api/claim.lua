-- Finish what the owner sends, requeue what is due, and lease up to n jobs.
-- ARGV now owner number queues n lease_seconds max_deliveries poll_seconds finishes yields times
-- RETURNS {1, lost, wait, "fence id queue deliveries since[ limits]", record, ...}, {-1} too late;
-- behind the wait, `/` and how the queues stand, where times are given; a blank and what could not
-- be read, if there is any
-- limits: those wider than a shard for which the job needs permits, see permits.lua
-- since: from when on the job could have started, unless it was due later; -: not known any more
local _, owner, number, queues, n, lease_seconds, max_deliveries, poll_seconds, finishes,
  yields, times = unpack(ARGV)
n = tonumber(n)
-- LATER
local known = Idempotency.answered(owner, number)
local reply, failed, plan
local stands = times ~= '' and known == false and Across.before(queues, times)
local asked = queues
if stands then queues, n = Across.served(stands, queues, n) end
if known == false then
  reply, failed, plan = ShortClaim.go(owner, number, queues, n, lease_seconds, finishes)
end
if reply then return stands and Across.after(stands, reply) or reply end
-- LATER
if failed then ShortClaim.undo(plan, failed) end
max_deliveries, poll_seconds = tonumber(max_deliveries), tonumber(poll_seconds)

-- The record has the rest. Few and flat values: reading each costs the client more than a command.
local function add(reply, l, record)
  insert(reply, concat({ l.fence, l.id, l.queue, int(l.deliveries), l.since or '-',
    Permits.needed(l.queue, l.task) }, ' '))
  insert(reply, record)
end

local function kept_reply(reply)
  local lost, wait, fences = match(reply, '^([^|]*)|([^|]*)|(.*)$')
  local whole = { 1, lost, wait }
  for fence in gmatch(fences, '%d+') do
    local l = Leases.held(fence, owner)
    if l then add(whole, l, Jobs.read(l.queue, l.id)) end
  end
  return whole
end

if known == nil then return { -1 } end
if known then return kept_reply(known) end

local lost = Leases.finish_all(finishes, owner)

local from = {}
for queue in gmatch(queues, '%S+') do insert(from, queue) end
local all = from -- also those that wait for other shards
if queues ~= asked then
  all = {}
  for queue in gmatch(asked, '%S+') do insert(all, queue) end
end

-- The queues that have runnable work. A queue that has none must not lend its turn to a neighbour.
local function candidates(below_reserve)
  if #from == 1 then return from end
  local found = {}
  for _, queue in ipairs(from) do
    if call('EXISTS', below_reserve and K.reserved(queue) or K.ready(queue)) == 1 then
      insert(found, queue)
    end
  end
  return found
end

local function was_served_before(one, other)
  local a, b = tonumber(Records.node(one).last_fence), tonumber(Records.node(other).last_fence)
  return a < b or a == b and one < other
end

-- The queue that was served longest ago is next, whichever claimer served it.
local function turn_of(queues)
  if #queues > 1 then table.sort(queues, was_served_before) end
  for _, queue in ipairs(queues) do
    local ws, flow = Select.runnable(Records.register(queue))
    if ws then return ws, flow end
  end
end

local function next_job()
  local ws, flow
  if #from > 1 and Limits.any('reserves') then ws, flow = turn_of(candidates(true)) end
  if not ws then ws, flow = turn_of(candidates(false)) end
  if ws then return Leases.grant(ws, flow, owner, lease_seconds) end
end

local fences = {}
reply = { 1, lost, '0' }
local function serve()
  Tick.all(max_deliveries, RebuildJobs.go_on)
  while #fences < n do
    local l, record, has_passed = next_job()
    if not (l or has_passed) then break end
    if l then
      insert(fences, l.fence)
      add(reply, l, record)
    end
  end
end

local done, said = pcall(serve)
if not done then
  RebuildJobs.go_on(said)
  serve()
end
S.at_work = false
for _, queue in ipairs(all) do S.touched_queues[queue] = true end
Tick.forget_idle_of(from, #fences > 0)
if #fences == 0 and n > 0 then
  for _, queue in ipairs(from) do Records.note_use(queue) end
  RebuildPages.run()
end
if #fences < n then
  reply[3] = num(Wakeups.watch(owner, yields == '1', poll_seconds))
else
  Wakeups.unwatch(owner, all, poll_seconds)
end
Idempotency.keep(owner, number, concat({ lost, reply[3], concat(fences, ' ') }, '|'), lease_seconds)
for _, stand in ipairs(stands or {}) do
  stand.is_closed = not Limits.is_open(Records.node(stand.queue))
end
if #S.set_aside > 0 then reply[3] = reply[3] .. ' ' .. Shard.told() end
return stands and Across.after(stands, reply) or reply
