-- Limits are read from the store alone. What counts more: live, given by a provider, configured, default.
local FEW = 32 -- so many fields are read at once, more are read by name
local NONE = { weight = 1, burst = 1 }
local by_text = {}
local fields, noted

function Limits.load()
  local many = call('HLEN', K.limits())
  fields = many <= FEW and {}
  local all = many > 0 and fields and call('HGETALL', K.limits()) or {}
  for i = 1, #all, 2 do
    if all[i + 1] ~= '' then fields[all[i]] = all[i + 1] end
  end
end

function Limits.none_at_all()
  if fields == nil then Limits.load() end
  return fields and next(fields) == nil
end

-- The texts of some fields, '' for those that are not set.
function Limits.texts(...)
  local texts = fields and {} or call('HMGET', K.limits(), ...)
  for i, name in ipairs({ ... }) do texts[i] = fields and fields[name] or texts[i] or '' end
  return texts
end

-- The later text counts more. The same texts give the same limits: most workspaces share them.
function Limits.merged(texts)
  local key = concat(texts, '|')
  if by_text[key] then return by_text[key] end
  local limits = { weight = 1, burst = 1 }
  for name, value in gmatch(key, '([%w_]+)=([^ |]+)') do
    limits[name] = name ~= 'exempt' and name ~= 'parent' and tonumber(value) or value
  end
  if limits.observe then limits = Observed.limits(limits) end
  if limits.draining then limits.capacity = 0 end
  by_text[key] = limits
  return limits
end

-- The default workspace is under the default limits only if it has limits of its own.
function Limits.of(ws)
  if ws.limits then return ws.limits end
  if Limits.none_at_all() then return NONE end
  local texts = Limits.texts('boot:default:', 'live:default:', 'boot:workspace:' .. ws.name, 'given:workspace:' .. ws.name, 'live:workspace:' .. ws.name, 'pause:workspace:' .. ws.name, 'boot:observe:')
  local limits = Limits.merged(texts)
  if (limits.exempt or 'default') == ws.name and texts[3] == '' and texts[4] == '' and texts[5] == '' then
    limits = { weight = 1, burst = 1, fairness = limits.fairness, paused = limits.paused, capacity = limits.draining and 0, would = limits.would and NONE }
  end
  ws.limits = limits
  return limits
end

-- Whether a task has a limit ('tasks') or a workspace a reserve ('reserves'): else nobody asks for each.
function Limits.any(what)
  if Limits.none_at_all() then return false end
  if fields then return fields[what] ~= nil end
  noted = noted or call('HMGET', K.limits(), 'tasks', 'reserves')
  return noted[what == 'tasks' and 1 or 2] ~= false
end

function Limits.of_node(node)
  if Limits.none_at_all() then return NONE, NONE end
  if not node.limits then
    local texts = Limits.texts('boot:total:', 'live:total:', 'boot:queue_default:', 'boot:queue:' .. node.queue, 'live:queue:' .. node.queue, 'pause:total:', 'pause:queue:' .. node.queue, 'boot:observe:')
    node.total = Limits.merged({ texts[1], texts[2], texts[6], texts[8] })
    node.limits = Limits.merged({ texts[3], texts[4], texts[5], texts[7], texts[8] })
  end
  return node.limits, node.total
end

-- A closed node's members keep their places and tags; they are not looked at.
function Limits.is_open(node)
  local limits, total = Limits.of_node(node)
  if limits.paused or total.paused then return false end
  if limits.concurrency and call('SCARD', K.slots_of_queue(node.queue)) >= limits.concurrency then return false end
  return not (total.concurrency and call('ZCARD', K.expiry()) >= total.concurrency)
end
