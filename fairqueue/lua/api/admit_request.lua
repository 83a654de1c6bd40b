-- Admit a request, let it wait for its turn, or reject it.
-- ARGV now ticket length waiting_most
-- ROUTE ticket
-- FULL refused
-- RETURNS {} if it is in flight; {'waits'}, or {'waits', scope} where this call has made it wait
-- for a limit of that scope; {scope, limit here, in flight here} if it is rejected
local _, ticket, length, waiting_most = unpack(ARGV)

local name, ends = Requests.workspace_of(ticket), now + length
if Shard.is_spread() then Shard.refuse_moved(name) end
local known = Requests.end_of(ticket)
if known ~= 0 then call('ZADD', K.requests(), num(known > 0 and ends or -ends), ticket) end
if known > 0 then return {} end
local is_queued = call('ZCOUNT', K.requests(), '-inf', '(0') > 0
Requests.expire()
if is_queued then
  Requests.settle(name) -- its limit may have been raised
  Requests.start_waiting()
  known = Requests.end_of(ticket)
  if known > 0 then return {} end
  if known < 0 then
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
if Requests.end_of(ticket) > 0 then return {} end
return { 'waits', (Requests.full(name)) }
