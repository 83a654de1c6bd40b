-- What belongs to a workspace that moves, beside its jobs and dead letters.
-- ARGV now workspace
-- RETURNS {live, provider, pause, stamps, asked, lost, observed, tat, estimates, rates, requests}
-- stamps: a line of each; rates: task=time ...; requests (in flight): ticket=seconds
-- WRITES nothing
local _, name = unpack(ARGV)
local ws = Records.workspace(name)
local found, stamps = {}, ''

for _, source in ipairs({ 'live', 'provider', 'pause' }) do
  local field = Moves.field(source, name)
  insert(found, Moves.not_held(Moves.text(field)))
  stamps = stamps .. (call('HGET', K.stored_by(), field) or '') .. '\n'
end
insert(found, stamps)
insert(found, call('ZSCORE', K.asked(), name) or '')
insert(found, call('HGET', K.lost(), name) or '')
insert(found, call('HGET', K.observed(), name) or '')
insert(found, ws.tat)

local rates = {}
for _, task in ipairs(call('HKEYS', K.indexed_tasks())) do
  local tat = call('ZSCORE', K.task_rates(), name .. ':' .. task)
  if tat then insert(rates, task .. '=' .. tat) end
end
insert(found, ws.duration_estimates)
insert(found, concat(rates, ' '))
local requests = {}
for _, ticket in ipairs(call('ZRANGEBYSCORE', K.requests_of_workspace(name), 0, 0)) do
  local ends = call('ZSCORE', K.requests(), ticket) or now
  insert(requests, ticket .. '=' .. num(max(1, ends - now)))
end
insert(found, concat(requests, ' '))
return found
