-- One page of the names of workspaces, queues or tasks that stand in one place.
-- ARGV now place scope cursor count
-- ROUTE all MERGE concat
-- RETURNS {now, cursor, name, ...}; a name may come more than once
-- WRITES nothing
local _, place, scope, cursor, count = unpack(ARGV)

local PLACES = {
  workspaces = { 'HSCAN', K.workspaces() }, dead_workspaces = { 'ZSCAN', K.dead_workspaces() },
  shard = { 'HSCAN', K.shard() },
  limits = { 'HSCAN', K.limits() }, unique = { 'HSCAN', K.unique() },
  requests = { 'ZSCAN', K.requests() }, schedule_times = { 'ZSCAN', K.schedule_times() },
  task_rates = { 'ZSCAN', K.task_rates() },
}
local scan, key = unpack(PLACES[place])
local following_cursor, found = unpack(call(scan, key, cursor, 'COUNT', count))
local names = { now_text, following_cursor }

-- The limits of a workspace also name its group.
local function add_limited(field, text)
  local of, name = match(field, '^%a+:(%a+):(.+)$')
  if of ~= scope then return end
  insert(names, name)
  local parent = match(text, 'parent=(%S+)')
  if parent then insert(names, parent) end
end

for i = 1, #found, 2 do
  if place == 'limits' then add_limited(found[i], found[i + 1])
  elseif place == 'shard' then
    insert(names, match(found[i], '^' .. scope .. ':(.+)$')
      or scope == 'queue' and match(found[i], '^kind:(.+)$') or nil)
  elseif place == 'requests' then insert(names, match(found[i], '^[^/]*/([^/]*)/'))
  elseif place == 'schedule_times' then insert(names, Schedules.names(found[i])[2])
  elseif place == 'unique' or place == 'task_rates' then
    insert(names, match(found[i], '^([^:@]+):'))
  elseif find(found[i], '^[^!#]') then insert(names, found[i])
  else
    local name = match(found[i], '^!+(.+)$') -- with cancelled jobs or finished steps
    if name then insert(names, name) end
  end
end
return names
