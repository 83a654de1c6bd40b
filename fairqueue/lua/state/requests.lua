-- Requests of web processes: leases without jobs. A ticket names one: owner/workspace/number, with
-- the names encoded. Until its lease ends it is in flight, or waits for its turn. An ask renews its
-- own ticket, and a renewal those that it names.
--   requests: ticket by its lease end; one that waits by the negative
--   requests_of_workspace: ticket: 0 in flight, else its turn among those that wait; TURN, while
--     any waits: the negative turn of the workspace among others
local MOST_STARTED = 32 -- waiting requests that one call starts
local MOST_EXPIRED = 32 -- tickets that one call drops
local TURN = 'turn' -- no ticket is named so

function Requests.workspace_of(ticket)
  return match(ticket, '^[^/]*/([^/]*)/')
end

-- When its lease ends; 0: it is not known.
function Requests.end_of(ticket)
  return tonumber(call('ZSCORE', K.requests(), ticket) or 0)
end

function Requests.running()
  return call('ZCOUNT', K.requests(), '(0', '+inf')
end

function Requests.in_flight(name)
  return call('ZCOUNT', K.requests_of_workspace(name), '0', '0')
end

function Requests.waiting(name)
  return call('ZCOUNT', K.requests_of_workspace(name), 1, '+inf')
end

-- What is full for one more request of a workspace: a scope, its limit, of the total the part
-- of this shard, and how many are in flight here; nil: nothing. `observes`: of limits that are only
-- observed.
function Requests.full(name, observes)
  local own, most = Limits.of_workspace({ name = name }), Limits.of_total()
  if observes then own, most = own.would or {}, most.would or {} end
  local used = own.requests and Requests.in_flight(name)
  if used and used >= own.requests then return 'workspace', int(own.requests), used end
  local all = most.requests and Requests.running()
  if all and all >= most.requests then
    return 'total', int(most.requests), all
  end
end

-- It is in flight until its lease ends; false: it was before.
function Requests.start(ticket, ends)
  local before = Requests.end_of(ticket)
  call('ZADD', K.requests(), num(ends), ticket)
  if before > 0 then return false end
  call('ZADD', K.requests_of_workspace(Requests.workspace_of(ticket)), 0, ticket)
  return true
end

-- The request is over, or does not wait any more; false: it was before.
function Requests.drop(ticket)
  local name = Requests.workspace_of(ticket)
  local is_known = call('ZREM', K.requests_of_workspace(name), ticket) == 1
  call('ZREM', K.requests(), ticket)
  if is_known then Requests.settle(name) end
  return is_known
end

-- Drop tickets whose leases have ended, a page at most.
function Requests.expire()
  local left = MOST_EXPIRED
  for _, range in ipairs({ { '(0', now_text }, { '-' .. now_text, '(0' } }) do
    local ended = call('ZRANGEBYSCORE', K.requests(), range[1], range[2], 'LIMIT', '0', left)
    for _, ticket in ipairs(ended) do Requests.drop(ticket) end
    left = left - #ended
  end
end

-- Whether a workspace that waits has a turn, and where: nothing else writes the turns.
function Requests.settle(name)
  local turn = call('ZSCORE', K.requests_of_workspace(name), TURN)
  if not turn then return end
  local member, used = format('%015d:%s', -turn, name), Requests.in_flight(name)
  call('ZREM', K.request_turns(), member)
  if Requests.waiting(name) == 0 then return call('ZREM', K.requests_of_workspace(name), TURN) end
  local limits = Limits.of_workspace({ name = name })
  if limits.requests and used >= limits.requests then return end
  call('ZADD', K.request_turns(), num((used + 1) / limits.weight), member)
end

-- Give free places to those that wait, as many as one call may.
function Requests.start_waiting()
  local head = call('ZRANGE', K.request_turns(), '0', '0')[1]
  local most = head and Limits.of_total().requests
  for _ = 1, MOST_STARTED do
    if not head or most and Requests.running() >= most then return end
    Requests.take_turn(head)
    head = call('ZRANGE', K.request_turns(), '0', '0')[1]
  end
end

-- A limit that is only observed is counted where it would have been full.
function Requests.observe(name)
  local scope = Requests.full(name, true)
  if scope then Explain.count(name, { 'requests', 'requests.' .. scope }) end
end

function Requests.next_turn()
  local meta = Shard.load()
  meta.arrival = meta.arrival + 1
  return meta.arrival
end

-- A workspace that begins to wait has its turn behind those that wait already.
function Requests.wait(ticket, ends)
  local name, turn = Requests.workspace_of(ticket), Requests.next_turn()
  local own = K.requests_of_workspace(name)
  call('ZADD', K.requests(), num(-ends), ticket)
  call('ZADD', own, int(turn), ticket, call('ZSCORE', own, TURN) or int(-turn), TURN)
  Requests.settle(name)
end

-- The next request of this workspace starts, and its next turn is behind the others'; unless its
-- limit was lowered.
function Requests.take_turn(member)
  local name = member:sub(17)
  call('ZREM', K.request_turns(), member)
  if Requests.full(name) then return end
  local own = K.requests_of_workspace(name)
  local ticket = call('ZRANGEBYSCORE', own, 1, '+inf', 'LIMIT', '0', 1)[1]
  if ticket then
    Requests.start(ticket, max(now, -Requests.end_of(ticket)))
    call('ZADD', own, int(-Requests.next_turn()), TURN)
  end
  Requests.settle(name)
end
