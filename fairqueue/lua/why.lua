-- Why a job waits, or what a workspace has; it only looks.
-- ARGV now workspace queue id
-- RETURNS {now, state, workspace, {fact...}, {waiting, scheduled, running, dead}, {line...}, observed}
local _, name, queue, id = unpack(ARGV)
local MOST = 10000 -- so many jobs of a lane are looked at
local GRAVEYARDS = 1000 -- so many workspaces with dead letters are looked at, where none is named

local function reply(state, facts, ws, lines)
  local scheduled = ws and call('ZCARD', K.scheduled(ws.name)) or 0
  local counts = ws and { Lanes.waiting_of(ws) - scheduled, scheduled, Settle.usage_of(ws), call('HLEN', K.dead(ws.name)) }
  local observed = ws and Limits.of(ws).would and (call('HGET', K.observed(), ws.name) or '')
  return { now_text, state, ws and ws.name or name, facts or {}, counts or { 0, 0, 0, 0 }, lines or {}, observed }
end

local function of_lanes(ws, priority, element)
  local unseen = false
  for _, flow in ipairs(ws.flows) do
    local before = 0
    for p in gmatch(flow.queue == queue and flow.lanes or '', '%d+') do
      local lane = K.lane(name, flow.place, p)
      local at, length = p == priority and call('LPOS', lane, element, 'MAXLEN', MOST), call('LLEN', lane)
      if at then return reply('waiting', {}, ws, { Places.line(ws, flow, element, before + at) }) end
      if p == priority and length > MOST then unseen = { flow, before + MOST } end
      before = before + length
    end
  end
  return nil, unseen
end

local function of_job()
  local header = match(call('HGET', K.jobs(queue), id), '^[^\n]*')
  local task, priority
  name, task, priority = match(header, '^(%S+) (%S+) (%S+)')
  local ws, element = Workspaces.of(name), task .. ':' .. id
  local due = call('ZSCORE', K.scheduled(name), concat({ queue, priority, element }, ' '))
  if due then return reply('scheduled', { due }, ws) end
  local found, unseen = of_lanes(ws, priority, element)
  if found then return found end
  for _, fence in ipairs(call('SMEMBERS', K.slots_of_workspace(name))) do
    local l = Lease.at(fence)
    if l.queue == queue and l.id == id then return reply('running', { l.claimed, l.owner, fence }, ws) end
  end
  return reply('waiting', {}, ws, { Places.line(ws, unseen[1], element, unseen[2]) })
end

local function of_none()
  for _, one in ipairs(name ~= '' and { name } or call('ZRANGE', K.dead_workspaces(), 0, GRAVEYARDS - 1)) do
    local letter = call('HGET', K.dead(one), id)
    if letter then return reply('dead', { match(letter, '^(%S+) %S+ (%S+)') }, Workspaces.of(one)) end
  end
  return reply(Ended.has(id) and 'ended' or 'unknown')
end

local function of_workspace()
  local ws, lines = Workspaces.of(name), {}
  for _, flow in ipairs(ws.flows) do
    if flow.lanes ~= '' then insert(lines, Places.line(ws, flow)) end
  end
  if #lines == 0 and ws.scheduled then return reply('scheduled', { num(ws.scheduled) }, ws) end
  return reply(#lines > 0 and 'waiting' or 'idle', {}, ws, lines)
end

if id == '' then return of_workspace() end
for _, one in ipairs(queue ~= '' and { queue } or call('HKEYS', K.nodes())) do
  if call('HEXISTS', K.jobs(one), id) == 1 then
    queue = one
    return of_job()
  end
end
return of_none()
