-- COLD: who is below its reserve goes first: an index beside each ready set, with the same tags.
function First.is_below(ws)
  return Settle.usage_of(ws) < Limits.of(ws).reserve
end

-- It is in the index exactly while it is ready and below its reserve.
function First.rank(who, flow, is_below)
  if (flow.first or false) == (is_below or false) then return end
  if is_below then
    call('ZADD', K.first(flow.node), flow.tag, Order.member_of(who, flow))
  else
    call('ZREM', K.first(flow.node), Order.member_of(who, flow))
  end
  flow.first = is_below or nil
end

-- A branch goes first with those in it.
function First.rank_branch(b)
  if b.first or Limits.any('reserves') then
    First.rank(b, b, Limits.any('reserves') and call('EXISTS', K.first(b.id)) == 1)
  end
end

-- It starts though others have lower tags. Then V stays, else it ran ahead of those that wait. F is
-- charged as ever, but is so far ahead of V at most, else it paid for ever afterwards; or as far as
-- the next that goes first, else those of whom more is reserved than there is would lose their order.
function First.jumps(who, node, flow, step)
  if call('ZRANGE', K.ready(node.id), 0, 0)[1] == Order.member_of(who, flow) then return false end
  local following = tonumber(call('ZRANGE', K.first(node.id), 0, 1, 'WITHSCORES')[4])
  local most = max(Fair.farthest(node.v, step, node.big), following or 0)
  if tonumber(flow.tag) > most then flow.tag = num(most) end
  return true
end
