-- A node is one order of flows: its virtual time V, its recent largest step, how it drains.
local nodes = {}

local function node_of(queue)
  local node = nodes[queue]
  if node then return node end
  local text = call('HGET', K.nodes(), queue)
  local v, big, drained, pace = match(text or '0 0 0 0', '^(%S+) (%S+) (%S+) (%S+)$')
  node = { queue = queue, v = tonumber(v), big = tonumber(big),
    drained = tonumber(drained), pace = tonumber(pace), dirty = not text }
  nodes[queue] = node
  return node
end

-- Tasks are numbered, so that lanes and records stay small.
local function task_number(name)
  local n = call('HGET', K.tasks(), name)
  if n then return n end
  n = format('%.0f', call('HLEN', K.tasks()) / 2 + 1)
  call('HSET', K.tasks(), name, n, '#' .. n, name)
  return n
end

local function name_of_task(n)
  return call('HGET', K.tasks(), '#' .. n)
end
