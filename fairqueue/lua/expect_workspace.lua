-- Prepare this shard for a workspace that moves to it: its limits hold, and nothing starts yet.
-- ARGV now workspace live provider pause stamps asked lost observed tat estimates rates requests
-- RETURNS 1; 0: the number of shards does not change
-- stamps: when these three were stored, and by which process, a line each
local _, name, live, provider, pause, stamps, asked, lost, observed, tat, estimates, rates,
  requests = unpack(ARGV)
if not Moves.are_under_way() then return 0 end
local stamp = gmatch(stamps, '([^\n]*)\n')

local function put(source, text)
  local field, stored = Moves.field(source, name), stamp()
  Limits.put(field, text)
  if stored ~= '' then call('HSET', K.stored_by(), field, stored) end
end
local function put_count(key, text)
  if text ~= '' then call('HSET', key, name, text) end
end

put('live', live)
put('provider', provider)
put('pause', Moves.held(pause, Shard.here()))
if asked ~= '' then call('ZADD', K.asked(), asked, name) end
put_count(K.lost(), lost)
put_count(K.observed(), observed)
for task, at in gmatch(rates, ':(%S*)=(%S+)') do
  local rate = name .. ':' .. Shard.task_number(task)
  local here = tonumber(call('ZSCORE', K.task_rates(), rate) or 0)
  call('ZADD', K.task_rates(), num(max(here, tonumber(at))), rate)
end
for ticket, length in gmatch(requests, '(%S+)=(%S+)') do
  Requests.start(ticket, num(now + length))
end

local ws = Moves.workspace(name)
ws.tat = num(max(tonumber(ws.tat), tonumber(tat)))
if ws.duration_estimates == '' then
  local read = {}
  for task, seconds in gmatch(estimates, ':(%S*)=(%S+)') do
    insert(read, ';' .. Shard.task_number(task) .. '=' .. seconds)
  end
  ws.duration_estimates = concat(read)
end
Settle.workspace(ws)
return 1
