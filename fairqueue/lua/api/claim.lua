-- Finish what the owner sends, requeue what is due, and lease up to n jobs.
-- ARGV now owner number queues n lease_seconds max_deliveries poll finishes yields times early
-- RETURNS {1, lost, wait, "fence id queue deliveries since[ more]", record, ...}, {-1} too late;
-- behind the wait, `/` and how the queues stand, where times are given; a blank and what could not
-- be read, if there is any
-- early: tasks whose jobs are acked early as they are leased, but for those that need permits
-- more: `early` if that was done, or the limits for which it needs permits, see permits.lua
-- since: from when on the job could have started, unless it was due later; -: not known any more
local _, owner, number, queues, n, lease_seconds, max_deliveries, poll, finishes,
  yields, times, early = unpack(ARGV)
n = n + 0 -- cheaper than tonumber
local known = Idempotency.answered(owner, number)
if known == nil then return { -1 } end
if known then return Idempotency.repeated(known, owner) end
local stands, asked = times ~= '' and Across.before(queues, times), queues
if stands then queues, n = Across.served(stands, queues, n) end
max_deliveries, poll = tonumber(max_deliveries), poll + 0

local lost = Leases.finish_all(finishes, owner, max_deliveries)

local from, fences = { queues }, { nil }
if queues == '' or find(queues, ' ', 1, true) then
  from = { nil }
  for queue in gmatch(queues, '%S+') do insert(from, queue) end
end
local all = from -- also those that wait for other shards
if queues ~= asked then
  all = {}
  for queue in gmatch(asked, '%S+') do insert(all, queue) end
end

local reply = { 1, lost, '0', nil, nil }
local function serve_and_save()
  Tick.all(max_deliveries)
  while #fences < n do
    local ws, flow = Select.next_of(from)
    if not ws then break end
    local l, record, has_passed = Leases.grant(ws, flow, owner, lease_seconds)
    if l then
      local acks_early = early ~= '' and find(' ' .. early .. ' ', ' ' .. l.task .. ' ', 1, true)
      l.early = acks_early and not Permits.needed(l.queue, l.task)
      fences[#fences + 1] = l.fence
      reply[#reply + 1] = Idempotency.told(l)
      reply[#reply + 1] = record
    elseif not has_passed then break end
  end
  Leases.save_granted()
end

RebuildJobs.twice(serve_and_save)
S.at_work = false
for i = 1, #all do S.touched_queues[all[i]] = true end
Tick.forget_idle_of(from, #fences > 0)
if #fences == 0 and n > 0 then
  for i = 1, #from do Records.note_claim(from[i]) end
  RebuildPages.run()
end
if #fences < n then
  reply[3] = int(Wakeups.watch(owner, yields == '1', poll) * 1000000 + 0.5) .. 'e-6'
else
  Wakeups.unwatch(owner, all, poll)
end
Idempotency.keep(owner, number, lost .. '|' .. reply[3] .. '|' .. concat(fences, ' '),
  lease_seconds)
if S.set_aside[1] then reply[3] = reply[3] .. ' ' .. Shard.told() end
if not stands then return reply end
for _, stand in ipairs(stands) do
  stand.is_closed = not Limits.is_open(Records.node(stand.queue))
end
return Across.after(stands, reply)
