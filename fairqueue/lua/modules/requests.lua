-- Requests of web processes: which are in flight, and which of those that wait is next. A ticket
-- names one: owner/workspace/number, with the names encoded. It is in flight or waits, and belongs
-- to its owner, which expires unless its process renews it.
local MOST_STARTED = 32 -- waiting requests that one call starts
local MOST_EXPIRED = 32 -- tickets of owners that have expired which one call drops

function Requests.workspace_of(ticket)
  return match(ticket, '^[^/]*/([^/]*)/')
end

function Requests.owner_of(ticket)
  return match(ticket, '^[^/]*')
end

function Requests.most_in_all()
  if Limits.none_is_set() then return {} end
  local most =
    Limits.merged(Limits.texts('configured:total:', 'live:total:', 'configured:observe:'))
  local is_wide = most.whole_requests or most.would and most.would.whole_requests
  return is_wide and Limits.within_quota(most, 'total:') or most
end

-- What is full for one more request of a workspace: a scope, its limit, which may be wider than
-- this shard, and how many are in flight here; nil: nothing. `of` chooses the limits in force, or
-- those that are only observed.
function Requests.full(name, of)
  local own, most = of(Limits.of_workspace({ name = name })), of(Requests.most_in_all())
  local used = own.requests and call('SCARD', K.requests_of_workspace(name))
  if used and used >= own.requests then return 'workspace', int(own.requests), used end
  local all = most.requests and call('ZCARD', K.requests())
  if all and all >= most.requests then
    return 'total', int(Limits.whole(most, 'requests')), all
  end
end

function Requests.in_force(limits)
  return limits
end

function Requests.is_known(ticket)
  return call('ZSCORE', K.requests_of_owner(Requests.owner_of(ticket)), ticket)
end

function Requests.is_in_flight(ticket)
  return call('ZSCORE', K.requests(), ticket)
end

-- A ticket belongs to its owner, which lives for a lease from its first one, and is renewed.
function Requests.enter(ticket, length)
  local owner = Requests.owner_of(ticket)
  call('ZADD', K.requests_of_owner(owner), now_text, ticket)
  if not call('ZSCORE', K.request_owners(), owner) then
    call('ZADD', K.request_owners(), num(now + length), owner)
  end
end

function Requests.start(ticket)
  call('ZADD', K.requests(), now_text, ticket)
  call('SADD', K.requests_of_workspace(Requests.workspace_of(ticket)), ticket)
end

-- COLD
-- A limit that is only observed is counted where it would have been full.
function Requests.observed(limits)
  return limits.would or {}
end

function Requests.observe(name)
  local scope = Requests.full(name, Requests.observed)
  if scope then Explain.count_observed(name, { 'requests', 'requests.' .. scope }) end
end

function Requests.next_turn()
  return int(call('HINCRBY', K.request_queue(), '#', 1))
end

-- A workspace that begins to wait has its turn behind those that wait already.
function Requests.wait(ticket)
  local name, turn = Requests.workspace_of(ticket), Requests.next_turn()
  call('ZADD', K.waiting_requests(name), turn, ticket)
  if call('HEXISTS', K.request_queue(), name) == 0 then
    call('HSET', K.request_queue(), name, turn)
  end
  Requests.settle(name)
end

-- Whether a workspace that waits has a turn, and where: nothing else writes the turns.
function Requests.settle(name)
  local turn = call('HGET', K.request_queue(), name)
  if not turn then return end
  local member = format('%016d:', turn) .. name
  call('ZREM', K.request_turns(), member)
  if call('ZCARD', K.waiting_requests(name)) == 0 then
    call('HDEL', K.request_queue(), name)
    if call('HLEN', K.request_queue()) == 1 then call('HDEL', K.request_queue(), '#') end
    return
  end
  local limits = Limits.of_workspace({ name = name })
  local used = call('SCARD', K.requests_of_workspace(name))
  if limits.requests and used >= limits.requests then return end
  call('ZADD', K.request_turns(), num((used + 1) / limits.weight), member)
end

-- The next request of this workspace starts, and its next turn is behind the others'.
function Requests.take_turn(name, member)
  local ticket = call('ZRANGE', K.waiting_requests(name), 0, 0)[1]
  call('ZREM', K.request_turns(), member)
  if not ticket then return end
  call('ZREM', K.waiting_requests(name), ticket)
  Requests.start(ticket)
  call('HSET', K.request_queue(), name, Requests.next_turn())
end

-- Give free places to those that wait, as many as one call may.
function Requests.start_waiting()
  local most = Requests.most_in_all().requests
  for _ = 1, MOST_STARTED do
    local member = call('ZRANGE', K.request_turns(), 0, 0)[1]
    if not member then return end
    if most and call('ZCARD', K.requests()) >= most then return end
    local name = match(member, '^%d+:(%S*)$')
    if Requests.full(name, Requests.in_force) then -- its limit was lowered
      call('ZREM', K.request_turns(), member)
    else
      Requests.take_turn(name, member)
      Requests.settle(name)
    end
  end
end

-- The request is over, or does not wait any more.
function Requests.drop(ticket)
  local owner, name = Requests.owner_of(ticket), Requests.workspace_of(ticket)
  call('ZREM', K.requests(), ticket)
  call('SREM', K.requests_of_workspace(name), ticket)
  call('ZREM', K.waiting_requests(name), ticket)
  call('ZREM', K.requests_of_owner(owner), ticket)
  if call('EXISTS', K.requests_of_owner(owner)) == 0 then
    call('ZREM', K.request_owners(), owner)
  end
  Requests.settle(name)
end

-- Drop tickets of processes that did not renew them, less than two pages; return how many.
function Requests.expire()
  local dropped = 0
  while dropped < MOST_EXPIRED do
    local owner = call('ZRANGEBYSCORE', K.request_owners(), '-inf', now_text, 'LIMIT', 0, 1)[1]
    if not owner then return dropped end
    local tickets = call('ZRANGE', K.requests_of_owner(owner), 0, MOST_EXPIRED - 1)
    for _, ticket in ipairs(tickets) do Requests.drop(ticket) end
    if #tickets == 0 then call('ZREM', K.request_owners(), owner) end
    dropped = dropped + max(1, #tickets)
  end
  return dropped
end

-- The same where no web process is left, as part of a worker's beat, which it must not stop.
function Requests.sweep()
  local done, said = pcall(function()
    if Requests.expire() > 0 then Requests.start_waiting() end
  end)
  if done then return end
  local text = type(said) == 'table' and said.err or said
  Shard.set_aside('failure', 'requests', tostring(text))
end
