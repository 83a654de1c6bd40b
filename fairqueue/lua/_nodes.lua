-- A node is one order of flows: its virtual time V, its recent largest step, how it drains.
Nodes.known = {}

function Nodes.of(queue)
  local node = Nodes.known[queue]
  if node then return node end
  local text = call('HGET', K.nodes(), queue)
  local v, big, drained, pace = match(text or '0 0 0 0', '^(%S+) (%S+) (%S+) (%S+)$')
  node = { queue = queue, v = tonumber(v), big = tonumber(big),
    drained = drained, pace = pace, dirty = not text }
  Nodes.known[queue] = node
  return node
end

function Nodes.save(node)
  if not node.dirty then return end
  local text = concat({ num(node.v), num(node.big), node.drained, node.pace }, ' ')
  call('HSET', K.nodes(), node.queue, text)
end
