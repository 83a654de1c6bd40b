-- COLD: what a start and a true-up change in the branches above a flow.
-- Its turn has come, for a job of this cost: what is in the tag is the cost of who was first then.
function Dues.start(b, cost)
  while b.up do
    local step = b.cost / b.weight
    if not (b.first and First.jumps(b, b.up, b, step)) then b.up.v = max(b.up.v, tonumber(b.tag)) end
    b.up.big, b.up.dirty, b.dirty = Fair.largest_step(b.up.big, step), true, true
    Order.set_finish(b, b, num(tonumber(b.tag) + (cost - b.cost) / b.weight))
    Order.leave(b, b)
    b = b.up
  end
end

-- What is used is charged at each level. A task that has lost its limit may have forgotten an F.
function Dues.charge(who, flow, seconds)
  while true do
    if not Order.finish_of(who, flow) then Order.set_finish(who, flow, num(Nodes.of(flow.node).v)) end
    Order.shift(who, flow, seconds)
    who, flow = flow.up, flow.up
    if not flow.up then return end
  end
end
