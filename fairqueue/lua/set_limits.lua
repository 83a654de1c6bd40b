-- Set or take away live limits of a workspace, a task, a queue, the default or the total.
-- ARGV now scope name changes
-- RETURNS the live limits that stand now; {concurrency} if a reserve above it is refused
local _, scope, name, changes = unpack(ARGV)

if scope == 'task' then name = Tasks.number(name) end
local field = concat({ 'live', scope, name }, ':')
local stands, texts = {}, {}
for key, value in gmatch((call('HGET', K.limits(), field) or '') .. ' ' .. changes, '([%w_]+)=(%S+)') do
  stands[key] = value ~= '-' and value or nil
end
for key, value in pairs(stands) do insert(texts, key .. '=' .. value) end
table.sort(texts)
local text = changes ~= '' and concat(texts, ' ') or ''
if match(changes, 'reserve=') then
  local most = Limits.merged(Limits.texts('boot:default:', 'live:default:', 'boot:workspace:' .. name, 'given:workspace:' .. name)).concurrency
  most = tonumber(stands.concurrency) or most
  if most and tonumber(stands.reserve) > most then return { most } end
  call('HSET', K.limits(), 'reserves', 1)
end
if text == '' then call('HDEL', K.limits(), field) else call('HSET', K.limits(), field, text) end
if stands.capacity then call('HSET', K.limits(), 'capacity', 1) end

if scope == 'task' then Caps.mark_tasks() end
if scope == 'workspace' then
  Settle.workspace(Workspaces.of(name))
  Groups.change(name)
end
if scope == 'task' then Shared.change_task(name) end
if scope == 'default' or scope == 'task' then Meta.load().drain = '0' end
if scope == 'queue' then Wake.touched[name] = true end
if scope == 'total' then Wake.touch_all() end
Wake.all()
Save.all()
return text
