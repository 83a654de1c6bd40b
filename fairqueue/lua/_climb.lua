-- COLD: where a branch stands among its siblings, settled from a workspace's flow up to the queue.
function Climb.up(node)
  while node.up do
    Climb.settle(node)
    node = node.up
  end
end

function Climb.settle(b)
  b.dirty = true
  Climb.weigh(b)
  local block = Gates.look(b.gate)
  if call('ZCARD', K.ready(b.id)) == 0 then
    Climb.retire(b)
  elseif block then
    Order.leave(b, b)
    Climb.rouse(b)
    Order.stand(b, block)
  elseif not b.serial then
    local _, flow = Turn.head_of(b)
    Order.enter(b, b, tonumber(flow.cost))
  end
  if b.serial then First.rank_branch(b) end
  Branches.count(b, b, b.gone)
end

function Climb.rouse(b)
  if b.state == 'rest' then call('ZREM', K.resting(b.node), b.id) end
end

function Climb.weigh(b)
  local old = b.weight
  if b.gate:sub(1, 1) == '@' then
    b.weight = Caps.of_group(b.gate:sub(2)).weight
  elseif b.total > 0 then
    b.weight = Fair.weight_of(b.total)
  end
  if old ~= b.weight then Order.reweigh(b, b, old / b.weight) end
end

-- A branch in which nobody is runnable; it is forgotten as a workspace is.
function Climb.retire(b)
  Order.leave(b, b)
  local finish = Order.finish_of(b, b)
  if call('ZCARD', K.resting(b.id)) < b.members then -- somebody runs, or is held back by a limit of its own
    Climb.rouse(b)
    return Order.stand(b, b.total > 0 and 'busy' or 'idle')
  end
  if b.members > 0 or finish and tonumber(finish) > b.up.v then return Climb.rest(b, finish) end
  Climb.forget(b)
end

-- Nobody is here: who came next would find V level with the highest F, so it may rise now.
function Climb.rest(b, finish)
  b.v = Fair.caught_up(b.v, nil, 0, tonumber(call('ZREVRANGE', K.finish(b.id), 0, 0, 'WITHSCORES')[2]))
  call('ZADD', K.resting(b.node), finish or num(b.up.v), b.id)
  Order.stand(b, 'rest')
end

function Climb.forget(b)
  call('ZREM', K.finish(b.node), b.id)
  Climb.rouse(b)
  Order.stand(b, 'idle')
  if b.gone then return end
  b.gone, Nodes.known[b.id] = true, nil
  call('HDEL', K.branches(), b.id)
  call('SREM', K.branches_of_gate(b.gate), b.id)
  Gates.look(b.gate)
  Branches.add_member(b.up, -1)
end

-- V has moved past a branch that rests, or past who rests in it.
function Climb.sweep(b, most)
  Settle.sweep_resting(b, most)
  if not b.gone then Climb.up(b) end
end
