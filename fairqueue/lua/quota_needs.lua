-- What the limits that are wider than a shard need here, page by page, or of these alone.
-- ARGV now names what place cursor count
-- RETURNS {cursor, has_default, row, ...}; has_default: 1 if each queue has such a limit, and so
-- those of the other places must be asked, too
-- what: concurrency or capacity, '': both
-- names: "scope:name ...", else a place: limits, kinds or nodes
-- Queues under a default that are idle and have a part of it are left out there.
-- row: "limit whole quota epoch used demand weight"
-- WRITES nothing
local _, names, what, place, cursor, count = unpack(ARGV)
local rows, has_default = {}, 0

local function add(scope, name)
  Quotas.needs(rows, scope, name, Quotas.own_name(scope, name), what)
end

-- A task is listed by its number.
local function add_field(field)
  local scope, name = match(field, '^%a+:([%a_]+):(.*)$')
  if scope == 'queue_default' then has_default = 1
  elseif scope == 'task' then
    local task_name = call('HGET', K.tasks(), '#' .. name)
    if task_name then Quotas.needs(rows, scope, task_name, name) end
  else add(scope, name) end
end

local function lacks_nothing(queue)
  for _, what in ipairs({ 'concurrency', 'capacity' }) do
    local whole = Limits.stored_whole(what, 'queue', queue)
    if whole and Quotas.of(what, 'queue', queue) < 1 then return false end
  end
  return Cleanup.is_unused(queue)
end

local following_cursor = '0'
if names ~= '' then
  for scope, name in gmatch(names, '(%a+):(%S*)') do add(scope, name) end
elseif place == 'limits' then
  local fields
  following_cursor, fields =
    unpack(call('SSCAN', K.limits_with('whole'), cursor, 'COUNT', count))
  for _, field in ipairs(fields) do add_field(field) end
else
  local found
  local key = place == 'kinds' and K.kinds() or K.nodes()
  following_cursor, found = unpack(call('HSCAN', key, cursor, 'COUNT', count))
  for i = 1, #found, 2 do
    local is_plain = place == 'kinds' and match(found[i + 1], '^plain')
    if not is_plain and not lacks_nothing(found[i]) then add('queue', found[i]) end
  end
end
return { following_cursor, has_default, unpack(rows) }
