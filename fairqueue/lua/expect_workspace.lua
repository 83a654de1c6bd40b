-- Prepare this shard for a workspace that comes to it: its limits hold.
-- ARGV now workspace moves live provider pause stamps asked lost observed tat spent rates requests
-- RETURNS 1; 0: it moves, and the number of shards does not change
-- moves: 1 where its jobs follow, and nothing starts yet; 0 where it has none, and lives here now
-- stamps: when these three were stored, and by which process, a line each; spent: estimates
local _, name, moves, live, provider, pause, stamps, asked, lost, observed, tat, spent, rates,
  requests = unpack(ARGV)
if moves == '1' and not Moves.are_under_way() then return 0 end
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
put('pause', moves == '1' and Moves.held(pause, Shard.here()) or pause)
if asked ~= '' then call('ZADD', K.asked(), asked, name) end
put_count(K.lost(), lost)
put_count(K.observed(), observed)
for task, at in gmatch(rates, '(%S+)=(%S+)') do
  local rate = name .. ':' .. task
  local here = tonumber(call('ZSCORE', K.task_rates(), rate) or 0)
  call('ZADD', K.task_rates(), num(max(here, tonumber(at))), rate)
end
for ticket, length in gmatch(requests, '(%S+)=(%S+)') do
  Requests.start(ticket, num(now + length))
end

local ws = Moves.workspace(name)
ws.tat = num(max(tonumber(ws.tat), tonumber(tat)))
if ws.duration_estimates == '' then ws.duration_estimates = spent end
Settle.workspace(ws)
if moves == '0' then
  Moves.open_ways()
  call('HDEL', K.moved(), name)
  call('HSET', K.moved(), '+' .. name, 1)
end
return 1
