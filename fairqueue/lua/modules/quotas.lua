-- Limits that are wider than a shard: what this one has of each, its quota, and what it needs.
-- A limit is named `what:scope:name`, as in concurrency:queue:mail. A task is known here by its
-- number and elsewhere by its name.
--   quotas: limit -> quota epoch [departures]; of a rate see rate_quotas.lua
--     departures: how often something has left this shard with its part of it, see Quotas.leave
--   quota_ledger: limit -> granted:epoch of each shard, on the first shard; -: not known yet
--     tokens=n behind them: of a rate, in units that no shard has
local FLOWS_LOOKED_AT = 24 -- of each node that are looked at: they stand for the others
local NODES_LOOKED_AT = 200 -- of queues or a task's nodes, up to as many with jobs:
local NODES_WITH_JOBS = 32
local QUOTA_KEPT_SECONDS = 86400 -- after its last change, once it is not needed
local REQUESTS_LOOKED_AT = 32 -- of those in flight, and of the workspaces that wait
local WHATS = { total = { 'concurrency', 'capacity', 'requests' },
  queue = { 'concurrency', 'capacity' }, task = { 'concurrency', 'rate' } }

function Quotas.parse(limit)
  return match(limit, '^(%a+):(%a+):(.*)$')
end

-- How it is named in this shard's records; nil: its task is not known here.
function Quotas.own_name(scope, name)
  if scope == 'task' then return Shard.known_task(name) end
  return name
end

-- A rate has nothing in use: its units can be taken at any time.
function Quotas.used(what, scope, own_name)
  if what == 'rate' then return 0 end
  if what == 'requests' then return call('ZCARD', K.requests()) end
  if what == 'capacity' then
    return scope == 'total' and Lanes.total_depth() or Lanes.depth_of(own_name)
  end
  if scope == 'total' then return call('ZCARD', K.expiry()) end
  if scope == 'queue' then return call('HLEN', K.slots_of_queue(own_name)) end
  return call('SCARD', K.slots_of_shared_limit('/' .. own_name))
end

-- Its quota, the epoch of that, and the departures.
function Quotas.of(what, scope, own_name)
  local text = call('HGET', K.quotas(), concat({ what, scope, own_name }, ':')) or '0 0'
  local quota, epoch, departures = match(text, '^(%d+) (%d+) ?(%d*)')
  return tonumber(quota) or 0, epoch or '0', what ~= 'rate' and tonumber(departures) or 0
end

function Quotas.put(limit, quota, epoch, departures)
  local text = int(quota) .. ' ' .. epoch
  call('HSET', K.quotas(), limit, departures > 0 and text .. ' ' .. int(departures) or text)
end

-- What has left this shard and is used on another one takes its part of the quota with it. The
-- ledger learns of it with the next look; a process that looked before gives it none back.
function Quotas.leave(limit, n)
  local quota, epoch, departures = Quotas.of(Quotas.parse(limit))
  if n > 0 then Quotas.put(limit, max(0, quota - n), epoch, departures + 1) end
end

-- How many jobs of a node could start, and what its flows weigh of which jobs run or could start.
function Quotas.demand_of_node(node)
  local members, tagged = call('ZCARD', K.ready(node.id)), call('ZCARD', K.finish(node.id))
  local active = tagged > 0 and tagged - call('ZCARD', K.indebted(node.id)) or 0
  local looked, startable, weight = 0, 0, 0
  local most = max(2, min(FLOWS_LOOKED_AT, math.floor(S.flows_left / 4)))
  for _, member in ipairs(call('ZRANGE', K.ready(node.id), 0, most - 1)) do
    local its_startable, its_weight = Quotas.demand_of(node, member:sub(17))
    looked, startable, weight = looked + 1, startable + its_startable, weight + its_weight
  end
  if looked == 0 then return 0, active end
  return startable * members / looked, weight * max(members, active) / looked
end

-- What no record names is passed, since this changes nothing: a claim mends it.
function Quotas.demand_of(node, name)
  if match(name, '[/@]') then
    if call('HEXISTS', K.inner_nodes(), name) == 0 then return 0, 0 end
    local inner = Records.inner_node(name)
    local startable, weight = Quotas.demand_of_node(inner)
    return Room.least(startable, Room.of_node(inner)), weight
  end
  S.flows_left = S.flows_left - 1
  local ws, jobs = Records.workspace(name), 0
  local flow = Records.flow(ws, node.lane_key, true)
  if not flow or flow.node ~= node.id then return 0, 0 end
  for priority in gmatch(flow.lanes, '%d+') do
    jobs = jobs + Lanes.length(ws, flow, priority)
  end
  return Room.take(ws, flow, jobs), Limits.of_workspace(ws).weight
end

-- What some of these need, beginning at another one each time: they stand for the others.
function Quotas.demand_of_some(names, has_jobs, demand_of)
  local n, looked, with_jobs, startable, weight = #names, 0, 0, 0, 0
  local from = n > NODES_LOOKED_AT and math.floor(now * 1000) % n or 0
  while looked < min(n, NODES_LOOKED_AT) and with_jobs < NODES_WITH_JOBS do
    looked = looked + 1
    local name = names[(from + looked - 1) % n + 1]
    if has_jobs(name) then
      local its_startable, its_weight = demand_of(name)
      with_jobs = with_jobs + 1
      startable, weight = startable + its_startable, weight + its_weight
    end
  end
  if looked == 0 then return 0, 0 end
  return startable * n / looked, weight * n / looked
end

-- Of a queue, unless it is paused; of_all: what the total could start, so no more than its limit
-- lets start.
function Quotas.demand_of_queue(queue, of_all)
  local node = Records.node(queue)
  local limits, total = Limits.of_queue(node)
  if limits.paused or total.paused then return 0, 0 end
  local startable, weight = Quotas.demand_of_node(node)
  local room = of_all and limits.concurrency
    and max(0, limits.concurrency - call('HLEN', K.slots_of_queue(queue)))
  return Room.least(startable, room or nil), weight
end

function Quotas.demand_of_task(number)
  local limits = Limits.of_task(number)
  if not limits or limits.paused then return 0, 0 end
  local ids = call('SMEMBERS', K.nodes_of_shared_limit('/' .. number))
  return Quotas.demand_of_some(ids, Quotas.has_jobs, function(id)
    local inner = call('HEXISTS', K.inner_nodes(), id) == 1 and Records.inner_node(id)
    local queue_limits, total = Limits.of_queue(Records.node(match(id, '^[^/@]+')))
    if not inner or queue_limits.paused or total.paused then return 0, 0 end
    return Quotas.demand_of_node(inner)
  end)
end

function Quotas.has_jobs(id)
  return call('EXISTS', K.ready(id)) == 1 or call('EXISTS', K.finish(id)) == 1
end

function Quotas.demand_of_all()
  return Quotas.demand_of_some(call('HKEYS', K.nodes()), Quotas.has_jobs, function(queue)
    return Quotas.demand_of_queue(queue, true)
  end)
end

-- How many requests wait for a place that their workspaces may have, and what the workspaces weigh
-- of which requests wait or are in flight.
function Quotas.demand_of_requests()
  local seen, weight, waiting = {}, 0, 0
  local function look(name)
    local ws = { name = name }
    local limits = Limits.of_workspace(ws)
    if not seen[name] then seen[name], weight = true, weight + limits.weight end
    return limits
  end
  for _, ticket in ipairs(call('ZRANGE', K.requests(), 0, REQUESTS_LOOKED_AT - 1)) do
    look(match(ticket, '^[^/]*/([^/]*)/'))
  end
  local turns = call('ZRANGE', K.request_turns(), 0, REQUESTS_LOOKED_AT - 1)
  for _, member in ipairs(turns) do
    local name = match(member, '^%d+:(%S*)$')
    local most = look(name).requests
    local room = most and max(0, most - call('ZCOUNT', K.requests_of_workspace(name), 0, 0))
    local waits = call('ZCOUNT', K.requests_of_workspace(name), 1, '+inf')
    waiting = waiting + Room.least(waits, room or nil)
  end
  local all = call('ZCARD', K.request_turns())
  return #turns > 0 and waiting * all / #turns or 0, weight
end

-- Jobs or requests that could start but for this limit, and what their flows weigh. What will be
-- published is not known, so a capacity has no demand.
function Quotas.demand(what, scope, own_name)
  if what == 'capacity' then return 0, 1 end
  if what == 'requests' then return Quotas.demand_of_requests() end
  if scope == 'total' then return Quotas.demand_of_all() end
  if scope == 'queue' then return Quotas.demand_of_queue(own_name) end
  if what == 'rate' then return Quotas.demand_of_rate(own_name) end
  return Quotas.demand_of_task(own_name)
end

function Quotas.demand_of_rate(number)
  local startable, weight = Quotas.demand_of_task(number)
  local limits = Limits.of_task(number)
  local most = limits and limits.concurrency
  local room = most and max(0, most - call('SCARD', K.slots_of_shared_limit('/' .. number)))
  return Room.least(startable, room or nil), weight
end

-- What each limit of a scope needs here: `limit whole quota epoch used demand weight departures`,
-- and of a rate ` fills tokens has_started`.
function Quotas.needs(rows, scope, name, own_name, only)
  for _, what in ipairs(WHATS[scope]) do
    local is_asked = own_name and (not only or only == '' or only == what)
    local whole = is_asked and Limits.stored_whole(what, scope, own_name)
    if whole then
      local quota, epoch, departures = Quotas.of(what, scope, own_name)
      local demand, weight = Quotas.demand(what, scope, own_name)
      local rate = what == 'rate' and RateQuotas.of(own_name)
      insert(rows, concat({ concat({ what, scope, name }, ':'), num(whole),
        int(rate and rate.units or quota), epoch, int(Quotas.used(what, scope, own_name)),
        num(demand), num(weight), int(departures), rate and rate.text or nil }, ' '))
    end
  end
end

-- How many shards may have a quota, by what this one has stored, else as its caller knows it. While
-- their number changes, to its very end, those that come and those that go.
function Quotas.shards(known)
  local from, to = match(call('GET', K.shards()) or '', '^(%d+)[%d.]*>?(%d*)')
  if not from then return tonumber(known) end
  local moves = match(call('HGET', K.limits(), 'moves') or '0', '^%d+')
  return max(tonumber(from), tonumber(to) or 0, tonumber(moves))
end

-- The ledger's line of a limit: {granted, epoch} of each shard. granted nil: not known.
-- A shard that is no more has nothing: when the change of their number ends, no job runs there.
function Quotas.line(limit, known)
  local line, shards = {}, Quotas.shards(known)
  local text = call('HGET', K.quota_ledger(), limit)
  local tokens = text and match(text, ' tokens=(%S+)$')
  line.tokens = text and tonumber(tokens or 0) or Quotas.new(limit)
  for granted, epoch in gmatch(text or '', '(%S+):(%d+)') do
    insert(line, { granted = tonumber(granted), epoch = tonumber(epoch) })
  end
  for i = #line, shards + 1, -1 do line[i] = nil end
  for i = #line + 1, shards do line[i] = { epoch = 0 } end
  return line
end

function Quotas.save_line(limit, line)
  local texts = {}
  for i, each in ipairs(line) do
    texts[i] = (each.granted and int(each.granted) or '-') .. ':' .. int(each.epoch)
  end
  if line.tokens > 0 then insert(texts, 'tokens=' .. num(line.tokens)) end
  call('HSET', K.quota_ledger(), limit, concat(texts, ' '))
end

-- The tokens of a rate that the ledger does not know yet: it begins with a full burst.
function Quotas.new(limit)
  local what, scope, name = Quotas.parse(limit)
  local own_name = what == 'rate' and Quotas.own_name(scope, name)
  return own_name and Limits.stored_whole(what, scope, own_name) or 0
end

-- An epoch is above the last one, and above the time in microseconds: so it is where the ledger has
-- lost its newest writes.
function Quotas.next_epoch(epoch)
  return max(epoch + 1, math.floor(now * 1000000))
end

-- What is granted in all if one shard has `granted`. One that has not told counts as an even share.
function Quotas.sum(line, whole, shard, granted)
  local sum = 0
  for i, each in ipairs(line) do
    sum = sum + (i == shard and granted or each.granted or math.floor(whole / #line))
  end
  return sum
end

-- A quota goes whose limit is gone, or that is nothing: later, until then its epoch refuses what
-- comes late.
function Quotas.drop(limit, text)
  if Quotas.is_old(limit, text) then call('HDEL', K.quotas(), limit) end
end

function Quotas.drop_granted(limit, text)
  if Quotas.is_old(limit, text, true) then call('HDEL', K.quota_ledger(), limit) end
end

function Quotas.is_old(limit, text, names_tasks)
  local what, scope, name = Quotas.parse(limit)
  if not what or not Quotas.is_settled(text) then return false end
  if not Quotas.grants(text) and not (names_tasks and what == 'rate') then return true end
  if names_tasks and scope == 'task' then name = Shard.known_task(name) end
  return not (name and Limits.stored_whole(what, scope, name))
end

-- Whether nothing has changed for long; text: `quota epoch`, or `granted:epoch` of each shard.
function Quotas.is_settled(text)
  for epoch in gmatch(text, '[ :](%d+)') do
    if now < epoch / 1000000 + QUOTA_KEPT_SECONDS then return false end
  end
  return true
end

function Quotas.grants(text)
  return find(' ' .. text, ' [1-9]%d*:') ~= nil or find(text, '^[1-9]%d* ') ~= nil
end
