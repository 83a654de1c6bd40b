-- Limits as they are stored: which apply, and which of two counts more.
-- Precedence, lowest first: default, configured, from a limit provider, live; a pause is on top.
-- What concerns many stands in a field of the shard's hash, and a call reads the others where one
-- is set for a workspace, queue or task. It goes whenever a limit is stored, and comes when needed.
--   settings: JSON. default, queue_default, total: limits of all, by name; marks, if they are set:
--   whether any limit has a capacity, also one of a queue, a task or the total (wide_capacity), or
--   is of a workspace, a queue, a task; whether leases of a task are indexed, limits are only
--   observed, a reserve may stand in an index; mark: of several shards; and see moves.lua
local OF_ALL = {
  default = { 'configured:default:', 'live:default:' },
  queue_default = { 'configured:queue_default:' },
  total = { 'configured:total:', 'live:total:', 'pause:total:' },
}
local PARTS = { 'default', 'queue_default', 'total' }
local LISTED = { 'capacity', 'wide_capacity', 'workspaces', 'queues', 'tasks' }
local NOTED = { 'configured:observe:', 'reserves', 'moves', 'forwards' }
local WORD = '([%w_]+)=([^ ]+)'
local NONE = { weight = 1, burst = 1, weighs = '1' }
local WIDE = { total = { 'concurrency', 'capacity', 'requests' },
  queue_default = { 'concurrency', 'capacity' }, task = { 'concurrency', 'rate', 'burst' } }
local DIVIDED = { capacity = true, requests = true }

function Limits.settings()
  local text = S.fields.settings or Limits.note()
  if text == '{}' then
    S.settings = NOTHING
    return NOTHING
  end
  local done, settings = pcall(cjson.decode, text)
  done = done and type(settings) == 'table'
  for i = 1, #PARTS do
    done = done and (not settings[PARTS[i]] or type(settings[PARTS[i]]) == 'table')
  end
  if not done then settings = cjson.decode(Limits.note()) end
  S.settings = settings
  return settings
end

-- The stored limits are others from now on: first, since the script may fail.
function Limits.forget()
  Shard.remove('settings')
  S.settings, S.limits_of, S.limits_by_text = false, nil, nil
end

function Limits.none_is_set()
  return (S.settings or Limits.settings()) == NOTHING
end

-- What a mark says; nil: it is not there.
function Limits.any(what)
  return (S.settings or Limits.settings())[what]
end

-- The texts of some fields, '' for those that are not set.
function Limits.text_of(...)
  local texts = call('HMGET', K.limits(), ...)
  for i = 1, #texts do texts[i] = texts[i] or '' end
  return concat(texts, ' ')
end

-- Limits by name. The last of two words of one name counts.
function Limits.read(text, limits)
  for name, value in gmatch(text, WORD) do
    limits[name] = name ~= 'exempt' and name ~= 'parent' and tonumber(value) or value
  end
  return limits
end

-- Write the settings, and return them as text.
function Limits.note()
  local parts = {}
  local function add(name, text) insert(parts, '"' .. name .. '":' .. text) end
  for name, fields in pairs(OF_ALL) do
    local words = {}
    for word, value in pairs(Limits.read(Limits.text_of(unpack(fields)), {})) do
      value = type(value) == 'number' and num(value) or '"' .. value .. '"'
      insert(words, '"' .. word .. '":' .. value)
    end
    if words[1] then add(name, '{' .. concat(words, ',') .. '}') end
  end
  for i, value in ipairs(call('HMGET', K.limits(), unpack(NOTED))) do
    if value then add(match(NOTED[i], '(%a+):?$'), '"' .. value .. '"') end
  end
  for _, name in ipairs(LISTED) do
    if call('EXISTS', K.limits_with(name)) == 1 then add(name, '1') end
  end
  if call('EXISTS', K.indexed_tasks()) == 1 then add('indexed', '1') end
  local mark = match(call('HGET', K.shard(), 'shards') or '', '^%d[%d.>]*$') or ''
  if find(mark, parts[1] and '.' or '[.>]') then add('mark', '"' .. mark .. '"') end
  local text = '{' .. concat(parts, ',') .. '}'
  Shard.put('settings', text)
  S.fields.settings = text
  return text
end

-- What this part of the settings says, and a text, which counts more. Most share the result.
function Limits.merged(part, text)
  local key = part .. text
  local limits = S.limits_by_text[key]
  if limits then return limits end
  local settings = S.settings or Limits.settings()
  if text == '' and not (settings[part] or settings.observe) then return NONE end
  limits = { weight = 1, burst = 1, weighs = '1', may_block = false, paused = false } -- of 8 fields
  for name, value in next, settings[part] or NOTHING do limits[name] = value end
  if text ~= '' then limits = Limits.read(text, limits) end
  if settings.mark and WIDE[part] then Limits.widen(limits, WIDE[part], settings) end
  if settings.observe then limits = Limits.observed(limits) end
  if limits.draining then limits.capacity = 0 end
  limits = Limits.complete(limits)
  S.limits_by_text[key] = limits
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

-- The exempt workspace is under the default limits only if it has limits of its own.
function Limits.of_name(name)
  local settings = S.settings or Limits.settings()
  if settings == NOTHING then return NONE end
  local default, own, held = settings.default or NOTHING, '', ''
  if settings.workspaces then own, held = Limits.own('workspace', name) end
  if settings.moves then held = held .. ' ' .. Limits.hold_of(name) end
  local is_under = name ~= (default.exempt or 'default') or find(own, '=', 1, true)
  if not is_under and default.fairness then own = ' fairness=' .. default.fairness .. ' ' end
  return Limits.merged(is_under and 'default' or '', own .. held)
end

-- What is stored for one workspace, queue or task, and its pause.
function Limits.own(scope, name)
  local own = ':' .. scope .. ':' .. name
  local texts = call('HMGET', K.limits(), 'configured' .. own, 'provider' .. own, 'live' .. own,
    'pause' .. own)
  for i = 1, 4 do texts[i] = texts[i] or '' end
  return concat(texts, ' ', 1, 3), ' ' .. texts[4]
end

function Limits.of_total()
  return Limits.none_is_set() and NONE or Limits.merged('total', '')
end

-- The limits of a node's queue, and of the total.
function Limits.of_queue(node)
  if Limits.none_is_set() then return NONE, NONE end
  if not node.limits then
    local own, held = '', ''
    if Limits.any('queues') then own, held = Limits.own('queue', node.queue) end
    node.limits = Limits.merged('queue_default', own .. held)
    node.total = Limits.of_total()
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

-- Limits that are wider than a shard stand as whole_…, and need permits: see permits.lua. Of a
-- capacity, or of requests, each shard has a fixed part beside that: the whole divided by the
-- number of shards, while that changes by the larger, and of the rest one for each of the first.
-- The only shard is one of several as soon as workspaces move: until then there may be processes
-- that know no other, and take no permits.
function Limits.widen(limits, wide, settings)
  local from, to = match(settings.mark, '^(%d+)[%d.]*>?(%d*)')
  if from == '1' and not settings.moves then return end
  local shards, own = max(tonumber(from), tonumber(to) or 0), tonumber(Shard.here())
  limits.shards = shards
  for _, what in ipairs(wide) do
    local whole = limits[what]
    limits['whole_' .. what] = whole
    limits[what] = whole and DIVIDED[what]
      and math.floor(whole / shards) + (own < whole % shards and 1 or 0) or nil
  end
end

-- A limit as people know it, which may be wider than this shard.
function Limits.whole(limits, what)
  return limits['whole_' .. what] or limits[what]
end

-- False: it has no limit of its own and is not paused, so it has no node either.
function Limits.of_task(task)
  if S.limits_of[task] == nil then
    local own, held = '', ''
    if Limits.any('tasks') then own, held = Limits.own('task', task) end
    local has_own = find(own, '=', 1, true) or find(held, 'paused', 1, true)
    S.limits_of[task] = has_own and Limits.merged('task', own .. held) or false
  end
  return S.limits_of[task]
end

-- What the workspaces of a group share; the defaults apply to single workspaces.
function Limits.of_group(name)
  local key = '@' .. name
  S.limits_of[key] = S.limits_of[key] or Limits.merged('', (Limits.own('workspace', name)))
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
  local is_exempt = ((Limits.any('default') or NOTHING).exempt or 'default') == name
  if is_exempt and not find((Limits.own('workspace', name)), '=', 1, true) then return sources end
  return { 'default', 'configured:default:', 'live default', 'live:default:', unpack(sources) }
end

-- The concurrency that a workspace has without its live limits; nil: none.
function Limits.concurrency_below_live(name)
  local own = Limits.text_of('configured:workspace:' .. name, 'provider:workspace:' .. name)
  local default = Limits.any('default') or NOTHING
  return Limits.read(own, { concurrency = default.concurrency }).concurrency
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
  if not source then return end -- a mark, which moves copy
  local has_capacity = find(text, 'capacity=') or find(text, 'draining=') or false
  local is_of_one = scope == 'workspace' or scope == 'default'
  local lists = { capacity = has_capacity, wide_capacity = has_capacity and not is_of_one,
    reserves = find(text, 'reserve=') or false, pauses = source == 'pause',
    configured = source == 'configured' }
  if name and name ~= '' then lists[scope .. 's'] = true end
  for what, belongs in pairs(lists) do
    call(text ~= '' and belongs and 'SADD' or 'SREM', K.limits_with(what), field)
  end
end

-- Forget what a limit provider said of a workspace.
function Limits.forget_answer(name)
  Limits.put('provider:workspace:' .. name, '')
  call('ZREM', K.asked(), name)
end
