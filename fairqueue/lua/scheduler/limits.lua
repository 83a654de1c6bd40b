-- Limits as they are stored: which apply, and which of two counts more.
-- Precedence, lowest first: default, configured, from a limit provider, live; a pause is on top.
local FEW = 32 -- up to this many fields are read at once, more are read by name
local MARKS = { 'tasks', 'reserves', 'indexed', 'capacity', 'wide_capacity', 'spread', 'moves',
  'forwards', 'configured:observe:' }
local NOTED = { capacity = true, wide_capacity = true, tasks = true } -- by marks, see Limits.list
local NONE = { weight = 1, burst = 1, weighs = '1' }

function Limits.load()
  S.limits_are_read, S.has_none = true, unlimited == 1
  if S.has_none then return true end
  local many = call('HLEN', K.limits())
  if many > FEW then return false end
  local all, fields, scopes = call('HGETALL', K.limits()), {}, {}
  for i = 1, #all, 2 do
    if all[i + 1] ~= '' and all[i] ~= 'configured' then
      fields[all[i]] = all[i + 1]
      scopes[match(all[i], ':([%a_]+):') or ''] = true
    end
  end
  S.limit_fields, S.limit_scopes, S.has_none = fields, scopes, next(fields) == nil
  if S.has_none then
    Shard.load()
    unlimited = 1
  end
  return S.has_none
end

-- Whether something of these scopes may have a limit: where few are stored, it is known at once.
function Limits.may_be_of(scope, other, third)
  local scopes = S.limit_scopes
  return not scopes or scopes[scope] or scopes[other] or scopes[third]
end

function Limits.none_is_set()
  if not S.limits_are_read then Limits.load() end
  return S.has_none
end

-- The texts of some fields, '' for those that are not set.
function Limits.texts(...)
  local fields, texts = S.limit_fields, { ... }
  local found = fields or call('HMGET', K.limits(), ...)
  for i = 1, #texts do texts[i] = found[fields and texts[i] or i] or '' end
  return texts
end

-- The later text counts more. Most workspaces share their texts, so the result is kept by text.
function Limits.merged(texts)
  local key = concat(texts, '|')
  local known = S.limits_by_text
  if known[key] then return known[key] end
  local limits = { weight = 1, burst = 1 }
  for name, value in gmatch(key, '([%w_]+)=([^ |]+)') do
    limits[name] = name ~= 'exempt' and name ~= 'parent' and tonumber(value) or value
  end
  if limits.observe then limits = Limits.observed(limits) end
  if limits.draining then limits.capacity = 0 end
  known[key] = Limits.complete(limits)
  return limits
end

-- What is asked most often: the weight as records have it, and whether anything may block.
function Limits.complete(limits)
  limits.weighs = limits.weight == 1 and '1' or num(limits.weight)
  limits.may_block = limits.paused or limits.rate or limits.concurrency
  return limits
end

function Limits.fields_of(name)
  local own = 'workspace:' .. name
  return 'configured:default:', 'live:default:', 'configured:' .. own, 'provider:' .. own,
    'live:' .. own, 'pause:' .. own, 'configured:observe:', 'moves'
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
  if S.has_none or Limits.none_is_set() then return NONE end
  local is_default = not (Limits.may_be_of('workspace') or S.limit_fields.moves)
  local texts = is_default and S.default_texts or Limits.texts(Limits.fields_of(name))
  if is_default then S.default_texts = texts end
  if texts[8] ~= '' then texts[8] = Limits.hold_of(name) end
  local limits = Limits.merged(texts)
  local has_own = texts[3] ~= '' or texts[4] ~= '' or texts[5] ~= ''
  if has_own or (limits.exempt or 'default') ~= name then return limits end
  return Limits.complete({ weight = 1, burst = 1, fairness = limits.fairness,
    paused = limits.paused, capacity = limits.draining and 0, draining = limits.draining,
    would = limits.would and NONE })
end

-- The capacity of a workspace, mostly read without its other limits; nil: none.
function Limits.capacity_of(name)
  local texts = Limits.texts(Limits.fields_of(name))
  local all = concat(texts, '|', 1, 6)
  local is_plain = texts[7] == '' and name ~= 'default'
    and not (find(all, 'exempt=' .. name, 1, true) or find(all, 'draining=', 1, true))
  if not is_plain then return Limits.of_name(name).capacity end
  return tonumber(match(all, '.*capacity=([^ |]+)')) -- the last one counts
end

-- What a mark says; false: it is not there. They are: whether any task has a limit ('tasks') or had
-- one ('indexed'), any workspace has a reserve, anything a capacity, and see moves.lua.
function Limits.any(what)
  if S.has_none or Limits.none_is_set() then return false end
  if S.limit_fields then return S.limit_fields[what] or false end
  if not S.limit_marks then
    local marks = call('HMGET', K.limits(), unpack(MARKS))
    S.limit_marks = {}
    for i, name in ipairs(MARKS) do S.limit_marks[name] = marks[i] end
  end
  return S.limit_marks[what]
end

-- The limits of a node's queue, and of the total.
function Limits.of_queue(node)
  if Limits.none_is_set() then return NONE, NONE end
  if not (Limits.may_be_of('queue', 'queue_default', 'total') or S.limit_scopes.observe) then
    return NONE, NONE
  end
  if not node.limits then
    local texts = Limits.texts('configured:total:', 'live:total:', 'configured:queue_default:',
      'configured:queue:' .. node.queue, 'live:queue:' .. node.queue, 'pause:total:',
      'pause:queue:' .. node.queue, 'configured:observe:')
    node.total = Limits.merged({ texts[1], texts[2], texts[6], texts[8] })
    node.limits = Limits.merged({ texts[3], texts[4], texts[5], texts[7], texts[8] })
    node.total, node.limits = Limits.with_parts(node.total), Limits.with_parts(node.limits)
  end
  return node.limits, node.total
end

-- The members of a queue that is closed keep their positions and tags.
function Limits.is_open(node)
  if S.has_none then return true end
  local limits, total = Limits.of_queue(node)
  if limits.paused or total.paused then return false end
  if limits.concurrency and call('HLEN', K.slots_of_queue(node.queue)) >= limits.concurrency then
    return false
  end
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
  return Limits.any('tasks') and find(Limits.texts('pause:task:' .. task)[1], 'draining') ~= nil
end

-- Limits that are only observed: everything but pauses and drains goes to `would`.
function Limits.observed(would)
  return { weight = would.weight, burst = 1, parent = would.parent, fairness = would.fairness,
    exempt = would.exempt, paused = would.paused, draining = would.draining, would = would }
end

-- Of a capacity, or of requests, over all shards each has a fixed part: the whole divided by their
-- number, and of the rest one for each of the first. While that number changes, the larger counts.
function Limits.part(whole)
  local from, to = match(call('HGET', K.shard(), 'shards') or '', '^(%d+)[%d.]*>?(%d*)')
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

function Limits.stored_number(word, scope, name)
  local own = scope .. ':' .. name
  local texts = { 'configured:' .. own, 'live:' .. own }
  if scope == 'queue' then insert(texts, 1, 'configured:queue_default:') end
  local all = concat(Limits.texts(unpack(texts)), ' ')
  return tonumber(match(all, '.*' .. word .. '=([^ ]+)')) -- the last one counts
end

-- A limit as people know it, which may be wider than this shard.
function Limits.whole(limits, what)
  return limits['whole_' .. what] or limits[what]
end

-- False: it has no limit of its own and is not paused, so it has no node either.
function Limits.of_task(task)
  if S.limits_of_task[task] == nil then
    local texts = Limits.texts('configured:task:' .. task, 'live:task:' .. task,
      'pause:task:' .. task, 'configured:observe:')
    local has_own = texts[1] ~= '' or texts[2] ~= '' or find(texts[3], 'paused') ~= nil
    local limits = has_own and Limits.merged(texts)
    S.limits_of_task[task] = limits
  end
  return S.limits_of_task[task]
end

-- What the workspaces of a group share; the defaults apply to single workspaces.
function Limits.of_group(name)
  return Limits.merged(Limits.texts('configured:workspace:' .. name, 'provider:workspace:' .. name,
    'live:workspace:' .. name, 'configured:observe:'))
end

-- The fields of a workspace, a task, a queue, the default or the total, as {source, field, ...}.
function Limits.sources(scope, name)
  local own = scope .. ':' .. name
  local sources = { 'configured', 'configured:' .. own, 'live', 'live:' .. own }
  if scope == 'queue' then return { 'default', 'configured:queue_default:', unpack(sources) } end
  if scope ~= 'workspace' then return sources end
  insert(sources, 3, 'limit_provider')
  insert(sources, 4, 'provider:' .. own)
  local default = call('HGET', K.limits(), 'configured:default:') or ''
  local configured, provided, live =
    unpack(call('HMGET', K.limits(), sources[2], sources[4], sources[6]))
  local is_exempt = (match(default, 'exempt=(%S+)') or 'default') == name
  if is_exempt and not (configured or provided or live) then return sources end
  return { 'default', 'configured:default:', 'live default', 'live:default:', unpack(sources) }
end

-- The concurrency that a workspace has without its live limits; nil: none.
function Limits.concurrency_below_live(name)
  local texts = Limits.texts('configured:default:', 'live:default:',
    'configured:workspace:' .. name, 'provider:workspace:' .. name)
  return Limits.merged(texts).concurrency
end

-- Set or delete one field. Some kinds of fields are listed, so that none of the others is read to
-- find out whether there are any.
function Limits.put(field, text)
  Shard.note_settings()
  if text == '' then call('HDEL', K.limits(), field) else call('HSET', K.limits(), field, text) end
  if text == '' then call('HDEL', K.stored_by(), field)
  elseif S.stored_by ~= '' then
    call('HSET', K.stored_by(), field, now_text .. ' ' .. S.stored_by)
  end
  local is_set, scope = text ~= '', match(field, ':(%a+):')
  local has_capacity = find(text, 'capacity=') or find(text, 'draining=')
  Limits.list('capacity', field, has_capacity)
  local is_wide = scope ~= 'workspace' and scope ~= 'default'
  Limits.list('wide_capacity', field, has_capacity and is_wide)
  Limits.list('tasks', field, is_set and scope == 'task')
  Limits.list('reserves', field, find(text, 'reserve='))
  Limits.list('pauses', field, is_set and match(field, '^pause:'))
  if find(field, '^configured:') then Limits.list('configured', field, is_set) end
  if find(text, 'reserve=') then call('HSET', K.limits(), 'reserves', 1) end
end

function Limits.list(what, field, belongs)
  call(belongs and 'SADD' or 'SREM', K.limits_with(what), field)
  if NOTED[what] then Limits.mark(what) end
end

-- Note whether there is any: where there is none, publishes and claims do not look.
function Limits.mark(what)
  Shard.note_settings()
  local is_there = call('EXISTS', K.limits_with(what)) == 1
  if is_there then call('HSET', K.limits(), what, 1) else call('HDEL', K.limits(), what) end
end

-- Forget what a limit provider said of a workspace.
function Limits.forget_answer(name)
  Limits.put('provider:workspace:' .. name, '')
  call('ZREM', K.asked(), name)
end
