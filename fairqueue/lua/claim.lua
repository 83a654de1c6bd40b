-- Finish what the owner brings, bring back what is due, and lease up to n jobs.
-- USES state nodes limits wake fair lanes order means timer settle lease admit ending return away sweep repeat save
-- KEYS meta
-- ARGV now owner number queues n lease_seconds max_deliveries poll_seconds finishes
-- RETURNS {1, lost, wait, {fence, id, queue, workspace, task, priority, deliveries, record}...}, {-1} too late
local _, owner, number, queues, n, lease_seconds, max_deliveries, poll_seconds, finishes = unpack(ARGV)
n, lease_seconds, max_deliveries = tonumber(n), tonumber(lease_seconds), tonumber(max_deliveries)

local function described(l, record)
  return { l.fence, l.id, l.queue, l.workspace, name_of_task(l.task), l.priority, num(l.deliveries), record }
end

local function again(reply)
  local lost, wait, fences = match(reply, '^([^|]*)|([^|]*)|(.*)$')
  local whole = { 1, lost, wait }
  for fence in gmatch(fences, '%d+') do
    local l = lease_at(fence)
    if l then insert(whole, described(l, call('HGET', K.jobs(l.queue), l.id))) end
  end
  return whole
end

local known = answered(owner, number)
if known == nil then return { -1 } end
if known then return again(known) end

local lost = finish_all(finishes)
sweep(lease_seconds, max_deliveries)

local from = {}
for queue in gmatch(queues, '%S+') do insert(from, queue) end

-- The workspace at the head of an open queue, never one that is blocked (a lowered limit).
local function runnable(node)
  for _ = 1, SWEEP_MOST do
    local ws = is_open(node) and head_of(node)
    if not ws or not blocked(ws) then return ws end
    settle(ws)
  end
end

local function next_job(turn)
  for i = 0, #from - 1 do
    local node = node_of(from[(turn + i) % #from + 1])
    local ws = runnable(node)
    if ws then return grant(ws, flow_of(ws, node.queue), owner, lease_seconds) end
  end
end

local reply, fences = { 1, lost, '0' }, {}
while #fences < n do
  local l, record = next_job(tonumber(number) + #fences)
  if not l then break end
  insert(fences, l.fence)
  insert(reply, described(l, record))
end
for _, queue in ipairs(from) do
  touched[queue] = true
  sweep_resting(node_of(queue), SWEEP_MOST)
end
if #fences < n then reply[3] = num(watch(owner, tonumber(poll_seconds))) end
wake()
save()
answer(owner, number, concat({ lost, reply[3], concat(fences, ' ') }, '|'), lease_seconds)
return reply
