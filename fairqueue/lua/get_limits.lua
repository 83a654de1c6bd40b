-- Limits of a workspace, a task, a queue, of all workspaces by default, or of the total, by source.
-- ARGV now scope name
-- RETURNS {source, text, ...}: what counts more comes later
local _, scope, name = unpack(ARGV)

if scope == 'task' then name = call('HGET', K.tasks(), name) or '-' end
local sources = { 'configured', 'boot:' .. scope .. ':' .. name, 'live', 'live:' .. scope .. ':' .. name }
if scope == 'queue' then sources = { 'default', 'boot:queue_default:', unpack(sources) } end
if scope == 'workspace' then
  local own = { 'boot:workspace:' .. name, 'given:workspace:' .. name, 'live:workspace:' .. name }
  local exempt = match(call('HGET', K.limits(), 'boot:default:') or '', 'exempt=(%S+)') or 'default'
  local boot, given, live = unpack(call('HMGET', K.limits(), unpack(own)))
  sources = { 'configured', own[1], 'limit_provider', own[2], 'live', own[3] }
  if boot or given or live or exempt ~= name then
    sources = { 'default', 'boot:default:', 'live default', 'live:default:', unpack(sources) }
  end
end

local found = {}
for i = 1, #sources, 2 do
  local text = call('HGET', K.limits(), sources[i + 1])
  if text then
    insert(found, sources[i])
    insert(found, text)
  end
end
return found
