-- Limits as they are stored: which apply, and which of two counts more.
-- Precedence, lowest first: default, configured, from a limit provider, live; a pause is on top.
-- What concerns many stands in a field of the shard's hash, so that a call reads nothing else where
-- none is set for one workspace, queue or task alone. It goes whenever a limit is stored, and the
-- next call that needs it writes it again. It is empty if there are no limits.
--   settings: default|queue_default|total|marks
--   marks: ` name:value` of each. Whether any limit has a capacity, also one of a queue, a task or
--   the total (wide_capacity), or is of a workspace, a queue, a task; whether leases of a task are
--   indexed, limits are only observed, a reserve may stand in an index; and see moves.lua.
--   default, queue_default, total: what holds for all, the text that counts more behind
local COPIED = { 'configured:default:', 'live:default:', 'configured:queue_default:',
  'configured:total:', 'live:total:', 'pause:total:' }
local LISTED = { 'capacity', 'wide_capacity', 'workspaces', 'queues', 'tasks' }
local NOTED = { 'configured:observe:', 'reserves', 'moves', 'spread', 'forwards' }
local NONE = { weight = 1, burst = 1, weighs = '1' }

function Limits.settings()
  return S.settings or Limits.note()
end

-- The stored limits are others from now on: first, since the script may fail.
function Limits.forget()
  Shard.write_fields()
  Shard.remove('settings')
  S.settings, S.common_limits, S.limits_of, S.limits_by_text = false, nil, nil, nil
end

function Limits.none_is_set()
  return (S.settings or Limits.settings()) == ''
end

-- Whether a mark is there.
function Limits.any(what)
  local settings = S.settings or Limits.settings()
  return settings ~= '' and find(settings, ' ' .. what .. ':', 1, true) ~= nil
end

-- What it says; false: it is not there.
function Limits.mark(what)
  return Limits.any(what) and match(S.settings, ' ' .. what .. ':(%S+)')
end

-- The texts of all workspaces by default, of all queues, and of the total.
function Limits.common()
  local common, settings = S.common_limits, S.settings or Limits.settings()
  if common then return common end
  common = { match(settings, '^([^|]*)|([^|]*)|([^|]*)|') }
  if not common[1] then common = { '', '', '' } end -- there are none
  S.common_limits = common
  return common
end

-- The texts of some fields, '' for those that are not set.
function Limits.texts(...)
  local texts = call('HMGET', K.limits(), ...)
  for i = 1, #texts do texts[i] = texts[i] or '' end
  return texts
end

function Limits.text_of(...)
  return concat(Limits.texts(...), ' ')
end

-- Write the settings.
function Limits.note()
  local fields, marks = Limits.texts(unpack(COPIED)), {}
  for i, text in ipairs(Limits.texts(unpack(NOTED))) do
    if text ~= '' then insert(marks, match(NOTED[i], '(%a+):?$') .. ':' .. text) end
  end
  for _, what in ipairs(LISTED) do
    if call('EXISTS', K.limits_with(what)) == 1 then insert(marks, what .. ':1') end
  end
  if call('EXISTS', K.indexed_tasks()) == 1 then insert(marks, 'indexed:1') end
  local text = concat({ concat(fields, ' ', 1, 2), fields[3], concat(fields, ' ', 4, 6),
    #marks > 0 and ' ' .. concat(marks, ' ') or '' }, '|')
  S.settings = find(text, '[^ |]') and text or ''
  Shard.put('settings', S.settings)
  return S.settings
end

-- The last of two words of one name counts.
function Limits.words(text)
  local limits = { weight = 1, burst = 1 }
  for name, value in gmatch(text, '([%w_]+)=([^ ]+)') do
    limits[name] = name ~= 'exempt' and name ~= 'parent' and tonumber(value) or value
  end
  return limits
end

-- Most workspaces share their texts, so the result is kept by text.
function Limits.merged(text)
  local limits = S.limits_by_text[text]
  if limits then return limits end
  limits = Limits.words(text)
  if Limits.any('observe') then limits = Limits.observed(limits) end
  if limits.draining then limits.capacity = 0 end
  limits = Limits.complete(limits)
  S.limits_by_text[text] = limits
  return limits
end

-- What is asked most often: the weight as records have it, and whether anything may block.
function Limits.complete(limits)
  limits.weighs = limits.weight == 1 and '1' or num(limits.weight)
  limits.may_block = limits.paused or limits.rate or limits.concurrency
  return limits
end

-- A workspace that is held, since it moves to another shard, is as one that is paused.
function Limits.hold_of(name)
  local to, since = match(call('HGET', K.moved(), name) or '', '^%D(%d+) (%S+)$')
  return to and 'paused=' .. since .. ' moves=' .. to or ''
end

function Limits.of_workspace(ws)
  local limits = ws.limits or Limits.of_name(ws.name)
  ws.limits = limits
  return limits
end

-- The default workspace is under the default limits only if it has limits of its own.
function Limits.of_name(name)
  if Limits.none_is_set() then return NONE end
  local default, own, held = Limits.common()[1], '', ''
  if Limits.any('workspaces') then
    own, held = Limits.own_text(name), Limits.text_of('pause:workspace:' .. name)
  end
  if Limits.any('moves') then held = held .. ' ' .. Limits.hold_of(name) end
  local limits = Limits.merged(concat({ default, own, held }, ' '))
  if find(own, '=', 1, true) or (limits.exempt or 'default') ~= name then return limits end
  return Limits.complete({ weight = 1, burst = 1, fairness = limits.fairness,
    paused = limits.paused, capacity = limits.draining and 0, draining = limits.draining,
    would = limits.would and NONE })
end

-- What is stored for a workspace alone.
function Limits.own_text(name)
  local own = ':workspace:' .. name
  return Limits.text_of('configured' .. own, 'provider' .. own, 'live' .. own)
end

-- The limits of the total, with the parts that this shard has.
function Limits.of_total()
  if Limits.none_is_set() then return NONE end
  return Limits.with_parts(Limits.merged(Limits.common()[3]))
end

-- The limits of a node's queue, and of the total.
function Limits.of_queue(node)
  if Limits.none_is_set() then return NONE, NONE end
  if not node.limits then
    local own, text = ':queue:' .. node.queue, Limits.common()[2]
    if Limits.any('queues') then
      text = text .. ' ' .. Limits.text_of('configured' .. own, 'live' .. own, 'pause' .. own)
    end
    node.limits, node.total = Limits.with_parts(Limits.merged(text)), Limits.of_total()
  end
  return node.limits, node.total
end

-- The members of a queue that is closed keep their positions and tags.
function Limits.is_open(node)
  local limits, total = Limits.of_queue(node)
  if limits.paused or total.paused then return false end
  local most = limits.concurrency
  if most and call('HLEN', K.slots_of_queue(node.queue)) >= most then return false end
  return not (total.concurrency and Limits.running() >= total.concurrency)
end

-- How many leases there are, with those that this call has granted and not yet written.
function Limits.running()
  return call('ZCARD', K.expiry()) + #S.granted
end

function Limits.usage_of(ws)
  ws.usage = ws.usage or call('SCARD', K.slots(ws.name))
  return ws.usage
end

-- Which of its own limits blocks a workspace.
function Limits.block_of(ws)
  local limits = ws.limits or Limits.of_workspace(ws)
  if not limits.may_block then return nil end
  if limits.paused then return 'paused' end
  local at = limits.rate and Fairness.next_start(tonumber(ws.tat), limits.rate, limits.burst)
  if at and at > now + 1e-9 then return 'rate' end
  if limits.concurrency and Limits.usage_of(ws) >= limits.concurrency then return 'at_limit' end
end

-- A task that drains needs no node: only publishes ask.
function Limits.is_draining(task)
  return Limits.any('tasks') and find(Limits.text_of('pause:task:' .. task), 'draining') ~= nil
end

-- Limits that are only observed: everything but pauses and drains goes to `would`.
function Limits.observed(would)
  return { weight = would.weight, burst = 1, parent = would.parent, fairness = would.fairness,
    exempt = would.exempt, paused = would.paused, draining = would.draining, would = would }
end

-- Of a capacity, or of requests, over all shards each has a fixed part: the whole divided by their
-- number, and of the rest one for each of the first. While that number changes, the larger counts.
function Limits.part(whole)
  local from, to = match(call('HGET', K.notes(), 'shards') or '', '^(%d+)[%d.]*>?(%d*)')
  if not from then return whole end
  local shards, own = max(tonumber(from), tonumber(to) or 0), tonumber(Shard.here())
  return math.floor(whole / shards) + (own < whole % shards and 1 or 0)
end

-- The same limits with the parts that this shard has. The whole stays beside them, for people.
function Limits.with_parts(limits)
  if not (limits.whole_capacity or limits.whole_requests) then
    local would = limits.would
    if would and (would.whole_capacity or would.whole_requests) then
      limits.would = Limits.with_parts(would)
    end
    return limits
  end
  local own = {}
  for name, value in pairs(limits) do own[name] = value end
  for _, what in ipairs({ 'capacity', 'requests' }) do
    local whole = own['whole_' .. what]
    own[what] = whole and Limits.part(whole) or own[what]
  end
  if own.draining then own.capacity = 0 end
  return own
end

-- A limit as people know it, which may be wider than this shard.
function Limits.whole(limits, what)
  return limits['whole_' .. what] or limits[what]
end

-- False: it has no limit of its own and is not paused, so it has no node either.
function Limits.of_task(task)
  if S.limits_of[task] == nil then
    local own = ':task:' .. task
    local text = Limits.any('tasks')
      and Limits.text_of('configured' .. own, 'live' .. own, 'pause' .. own)
    local has_own = text and find(text, '=', 1, true) and not find(text, '^ *draining=%S+$')
    S.limits_of[task] = has_own and Limits.merged(text) or false
  end
  return S.limits_of[task]
end

-- What the workspaces of a group share; the defaults apply to single workspaces.
function Limits.of_group(name)
  local key = '@' .. name
  S.limits_of[key] = S.limits_of[key] or Limits.merged(Limits.own_text(name))
  return S.limits_of[key]
end

-- The fields of a workspace, a task, a queue, the default or the total, as {source, field, ...}.
function Limits.sources(scope, name)
  local own = scope .. ':' .. name
  local sources = { 'configured', 'configured:' .. own, 'live', 'live:' .. own }
  if scope == 'queue' then return { 'default', 'configured:queue_default:', unpack(sources) } end
  if scope ~= 'workspace' then return sources end
  insert(sources, 3, 'limit_provider')
  insert(sources, 4, 'provider:' .. own)
  local is_exempt = (Limits.words(Limits.common()[1]).exempt or 'default') == name
  if is_exempt and not find(Limits.own_text(name), '=', 1, true) then return sources end
  return { 'default', 'configured:default:', 'live default', 'live:default:', unpack(sources) }
end

-- The concurrency that a workspace has without its live limits; nil: none.
function Limits.concurrency_below_live(name)
  local own = Limits.text_of('configured:workspace:' .. name, 'provider:workspace:' .. name)
  return Limits.words(Limits.common()[1] .. ' ' .. own).concurrency
end

-- Set or delete one field. Some kinds of fields are listed, so that none of the others is read to
-- find out whether there are any.
function Limits.put(field, text)
  Limits.forget()
  if text == '' then call('HDEL', K.limits(), field) else call('HSET', K.limits(), field, text) end
  if text == '' then call('HDEL', K.stored_by(), field)
  elseif S.stored_by ~= '' then
    call('HSET', K.stored_by(), field, now_text .. ' ' .. S.stored_by)
  end
  Limits.list(field, text)
  if find(text, 'reserve=') then call('HSET', K.limits(), 'reserves', 1) end
end

function Limits.list(field, text)
  local source, scope, name = match(field, '^(%a+):([%a_]+):(.*)$')
  local has_capacity = find(text, 'capacity=') or find(text, 'draining=') or false
  local is_of_one = scope == 'workspace' or scope == 'default'
  local lists = { capacity = has_capacity, wide_capacity = has_capacity and not is_of_one,
    reserves = find(text, 'reserve=') or false, pauses = source == 'pause',
    configured = source == 'configured' }
  if name ~= '' then lists[scope .. 's'] = true end
  for what, belongs in pairs(lists) do
    call(text ~= '' and belongs and 'SADD' or 'SREM', K.limits_with(what), field)
  end
end

-- Forget what a limit provider said of a workspace.
function Limits.forget_answer(name)
  Limits.put('provider:workspace:' .. name, '')
  call('ZREM', K.asked(), name)
end
