-- A node is one order of flows: its virtual time V, its recent largest step, how it drains,
-- and whether there are or were branches in it. This is a queue's own; see _branches.lua for others.
Nodes.known = {}

function Nodes.of(queue)
  local node = Nodes.known[queue]
  if node then return node end
  local text = call('HGET', K.nodes(), queue)
  local v, big, drained, pace, forks = match(text or '0 0 0 0', '^(%S+) (%S+) (%S+) (%S+) ?(%S*)$')
  node = { id = queue, queue = queue, place = queue, v = tonumber(v), big = tonumber(big),
    drained = drained, pace = pace, forks = forks ~= '' and forks or nil, dirty = not text }
  Nodes.known[queue] = node
  return node
end

function Nodes.save(node)
  if not node.dirty then return end
  if node.up then return Branches.save(node) end
  local text = concat({ num(node.v), num(node.big), node.drained, node.pace, node.forks }, ' ')
  call('HSET', K.nodes(), node.queue, text)
end
