-- Admit a request, let it wait for its turn, or reject it.
-- ARGV now ticket length waiting_most
-- ROUTE ticket
-- FULL refused
-- RETURNS {} if it is in flight; {'waits'}, or {'waits', scope} where this call has made it wait
-- for a limit of that scope; {scope, limit here, in flight here} if it is rejected
local _, ticket, length, waiting_most = unpack(ARGV)

local name, ends = Requests.workspace_of(ticket), num(now + length)
if Shard.is_spread() then Shard.refuse_moved(name) end
if call('ZSCORE', K.requests(), ticket) then
  call('ZADD', K.requests(), ends, ticket)
  return {}
end
local is_queued = call('EXISTS', K.request_queue()) == 1
if is_queued and call('ZSCORE', K.waiting_requests(), ticket) then
  call('ZADD', K.waiting_requests(), ends, ticket)
end
Requests.expire()
if is_queued then
  Requests.settle(name) -- its limit may have been raised
  Requests.start_waiting()
  if call('ZSCORE', K.requests(), ticket) then return {} end
  if call('ZSCORE', K.waiting_requests(), ticket) then
    if waiting_most ~= '0' then return { 'waits' } end
    Requests.drop(ticket)
  end
end
local scope, limit, used = Requests.full(name)
local waiting = is_queued and Requests.waiting(name) or 0
if not scope and waiting == 0 then
  if Limits.of_workspace({ name = name }).would then Requests.observe(name) end
  Requests.start(ticket, ends)
  return {}
end
if waiting >= tonumber(waiting_most) then return { scope or 'workspace', limit or 0, used or 0 } end
Requests.wait(ticket, ends)
Requests.start_waiting()
if call('ZSCORE', K.requests(), ticket) then return {} end
return { 'waits', (Requests.full(name)) }
