-- COLD: a branch is a node inside another: the jobs of a task that has a limit, or of one group.
--   queue/task, queue@group, queue/task@group -> v big weight total members share state since tag serial cost
-- Among its siblings it counts as one flow. That of a task weighs as much as its members do
-- together (total, in units: those that are ready or busy), that of a group as much as the group.
local BRANCH = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'

function Branches.at(id)
  if Nodes.known[id] then return Nodes.known[id] end
  local queue, task, group = match(id, '^([^/@]+)([^@]*)(.*)$')
  local text = call('HGET', K.branches(), id)
  local b = { id = id, name = id, queue = queue, place = queue .. task, gate = group ~= '' and group or task, forks = '1' }
  local up = group == '' and queue or queue .. task
  b.up = up == queue and Nodes.of(queue) or Branches.at(up)
  b.node = up
  local v, big, weight, total, members, share, state, since, tag, serial, cost =
    match(text or ('0 0 1 0 0 0 idle ' .. now_text .. ' 0 - 0'), BRANCH)
  b.v, b.big, b.weight, b.total = tonumber(v), tonumber(big), tonumber(weight), tonumber(total)
  b.members, b.share, b.state, b.since, b.tag, b.cost = tonumber(members), tonumber(share), state, since, tag, cost
  b.serial = serial ~= '-' and serial or nil
  if b.state == 'first' then b.state, b.first = 'ready', true end
  Nodes.known[id] = b
  if not text then Branches.sprout(b) end
  return b
end

function Branches.sprout(b)
  call('SADD', K.branches_of_gate(b.gate), b.id)
  Branches.add_member(b.up, 1)
  if not b.up.forks then b.up.forks = '1' end
  b.dirty, b.up.dirty = true, true
end

function Branches.save(b)
  if b.gone then return end
  call('HSET', K.branches(), b.id, concat({ num(b.v), num(b.big), num(b.weight), format('%.0f', b.total),
    int(b.members), format('%.0f', b.share), b.first and 'first' or b.state, b.since, b.tag, b.serial or '-', b.cost }, ' '))
end

-- So many more stand in this node; of a queue's own nobody asks.
function Branches.add_member(node, n)
  if node.up then node.members, node.dirty = node.members + n, true end
end

-- The node of a place and a group; it is made if there is none.
function Branches.leaf(place, parent)
  return Branches.at(parent and place .. '@' .. parent or place)
end

-- A flow that stands in a branch.
function Branches.hang(ws, flow)
  flow.task = match(flow.place, '/(%d+)$')
  flow.up = Branches.leaf(flow.place, ws.parent)
  flow.node, flow.queue = flow.up.id, flow.up.queue
  flow.share = Branches.share_of(ws, flow)
end

function Branches.share_of(who, flow)
  return (flow.state == 'ready' or flow.state == 'busy') and Fair.units_of(tonumber(who.weight)) or 0
end

-- A member that is ready or busy adds its weight to its branch, others nothing.
function Branches.count(who, flow, gone)
  local share = gone and 0 or Branches.share_of(who, flow)
  if flow.up.up then flow.up.total, flow.up.dirty = flow.up.total + share - flow.share, true end
  flow.share = share
end

-- Its branch is settled with it.
function Branches.after(ws, flow, kept)
  Branches.count(ws, flow, not kept)
  if not kept then Branches.add_member(flow.up, -1) end
  Climb.up(flow.up)
end
