-- Limits are read from the store alone. Live ones come before configured ones, own before default.
local limits_text = {}

function Limits.attribute(text, name)
  return text and match(text, '%f[%w]' .. name .. '=(%S+)')
end

function Limits.first(name, ...)
  for i = 1, select('#', ...) do
    local value = Limits.attribute(select(i, ...), name)
    if value then return value end
  end
end

function Limits.numbers(...)
  return {
    concurrency = tonumber(Limits.first('concurrency', ...) or nil),
    capacity = tonumber(Limits.first('capacity', ...) or nil),
    weight = tonumber(Limits.first('weight', ...) or 1),
    rate = tonumber(Limits.first('rate', ...) or nil),
    burst = tonumber(Limits.first('burst', ...) or 1),
  }
end

-- The same four texts give the same limits: most workspaces share the default's.
function Limits.cached(live, own, live_default, default)
  local text = concat({ live or '', own or '', live_default or '', default or '' }, '|')
  local limits = limits_text[text]
  if not limits then
    limits = Limits.numbers(live, own, live_default, default)
    limits.count = Limits.attribute(default, 'fairness') == 'count'
    limits_text[text] = limits
  end
  return limits
end

-- The default workspace is under the default limits only if it has limits of its own.
function Limits.of(ws)
  if ws.limits then return ws.limits end
  local live, own, live_default, default = unpack(call('HMGET', K.limits(),
    'live:workspace:' .. ws.name, 'boot:workspace:' .. ws.name, 'live:default:', 'boot:default:'))
  if not live and not own and Limits.attribute(default, 'exempt') == ws.name then
    live_default, default = false, Limits.attribute(default, 'fairness') == 'count' and 'fairness=count'
  end
  ws.limits = Limits.cached(live, own, live_default, default)
  return ws.limits
end

function Limits.of_node(node)
  if node.limits then return node.limits, node.total end
  local live, own, default, live_total, total = unpack(call('HMGET', K.limits(),
    'live:queue:' .. node.queue, 'boot:queue:' .. node.queue, 'boot:queue_default:', 'live:total:', 'boot:total:'))
  node.limits, node.total = Limits.cached(live, own, default), Limits.cached(live_total, total)
  return node.limits, node.total
end

-- A closed node's members keep their places and tags; they are not looked at.
function Limits.is_open(node)
  local limits, total = Limits.of_node(node)
  if limits.concurrency and call('SCARD', K.slots_of_queue(node.queue)) >= limits.concurrency then
    return false
  end
  return not (total.concurrency and call('ZCARD', K.expiry()) >= total.concurrency)
end
