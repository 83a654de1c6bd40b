-- One page of queues and their depths, and of workspaces and their numbers; or these workspaces.
-- ARGV now names cursor count
-- ROUTE all MERGE own
-- RETURNS {cursor, {queue, depth}..., row...}; the cursor is 0 at the beginning and at the end;
-- row: {name, waiting, scheduled, running, limit, oldest, dead, pause, weight, counts};
-- a workspace may come more than once
-- WRITES nothing
local _, names, cursor, count = unpack(ARGV)

local function published(name, queue, element)
  local id = Jobs.id_of(name, queue, element)
  local record = id and Jobs.read(queue, id)
  return record and tonumber(Jobs.published_at(record))
end

local function oldest_of(ws)
  local oldest
  for _, flow in ipairs(ws.flows) do
    for priority in gmatch(flow.lanes, '%d+') do
      local at = published(ws.name, flow.queue, Lanes.first(ws, flow, priority))
      oldest = at and min(at, oldest or at) or oldest
    end
  end
  return oldest
end

local function row(name)
  local ws = Records.workspace(name)
  Flows.read_all(ws)
  local own = Limits.of_workspace(ws)
  local limits = own.would or own
  local scheduled, oldest = call('ZCARD', K.scheduled(name)), oldest_of(ws)
  return { name, Lanes.waiting_of(ws) - scheduled, scheduled, Limits.usage_of(ws),
    limits.concurrency and num(limits.concurrency) or '',
    oldest and num(now - oldest) or '', call('HLEN', K.dead_letters(name)),
    own.paused and 'paused' or own.draining and 'draining' or '', num(limits.weight),
    Explain.counts_of(name) }
end

-- What is scanned, one after the other: every workspace of which anything is known is in one.
local PARTS = {
  { 'HSCAN', K.shard(), 'queue:(.+)' }, { 'HSCAN', K.workspaces() },
  { 'ZSCAN', K.dead_workspaces() }, { 'HSCAN', K.counts() },
}
local queues, rows, seen, left = {}, {}, {}, tonumber(count)

local function page_of(scan, key, of_queue, at)
  local following_cursor, found = unpack(call(scan, key, at, 'COUNT', left))
  for i = 1, #found, 2 do
    local name = found[i]
    if of_queue then
      name = match(name, of_queue)
      if name then insert(queues, { name, Lanes.depth_of(name) }) end
    elseif not (seen[name] or find(name, '^!')) then
      insert(rows, row(name))
      seen[name] = true
    end
  end
  left = left - #found / 2
  return following_cursor
end

if names ~= '' then
  for name in gmatch(names, '%S+') do insert(rows, row(name)) end
  return { '0', queues, rows }
end
local part, at = match(cursor, '^(%d):(%d+)$')
part, at = tonumber(part or 1), at or '0'
repeat
  local scan, key, of_queue = unpack(PARTS[part])
  at = page_of(scan, key, of_queue, at)
  if at == '0' then part = part + 1 end
until part > #PARTS or left <= 0
return { part > #PARTS and '0' or part .. ':' .. at, queues, rows }
