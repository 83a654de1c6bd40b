-- Set or take away live limits of a workspace, a task, a queue, the default or the total.
-- ARGV now scope name changes by
-- ROUTE scope MERGE own
-- RETURNS the live limits that stand now; {concurrency} if a reserve above it is refused;
-- {-2, task} if the leases of a task must be indexed before
local _, scope, name, changes, by = unpack(ARGV)
S.stored_by = by

if scope == 'workspace' then Shard.refuse_moved(name) end
if scope == 'task' then Tasks.name(name) end
local field = concat({ 'live', scope, name }, ':')
local stands, texts = {}, {}
local before = call('HGET', K.limits(), field) or ''
local all = before .. ' ' .. changes
for key, value in gmatch(all, '([%w_]+)=(%S+)') do
  stands[key] = value
end
for key, value in pairs(stands) do insert(texts, key .. '=' .. value) end
table.sort(texts)
local text = changes ~= '' and concat(texts, ' ') or ''
if stands.reserve and match(changes, 'reserve=') then
  local most = tonumber(stands.concurrency) or Limits.concurrency_below_live(name)
  if most and tonumber(stands.reserve) > most then return { most } end
end
local missing = scope == 'task' and text ~= '' and SharedLimits.not_indexed({ name }) or {}
if #missing > 0 then return { -2, name } end
Limits.put(field, text)

if scope == 'workspace' then
  Settle.workspace(Records.workspace(name))
  Settle.group_changed(name)
end
if scope == 'default' or scope == 'task' then Shard.load().drain = '0' end
if scope == 'queue' then S.touched_queues[name] = true end
if scope == 'total' then Wakeups.touch_all() end
return text
