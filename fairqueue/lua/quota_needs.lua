-- What the limits that are wider than a shard need here, page by page, or of these alone.
-- ARGV now names what place cursor count
-- RETURNS {cursor, has_default, row, ...}; has_default: 1 if each queue has such a limit, and so
-- those of the other places must be asked, too
-- what: concurrency, capacity, requests or rate only, '': all
-- names: "scope:name ...", else a place: limits, kinds or nodes
-- Queues under a default that are idle and have a part of it are left out there.
-- row: "limit whole quota epoch used demand weight departures", and of a rate
-- " fills tokens has_started"
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

-- What Redis gives at once may be more than a page: then the cursor also says how many were passed.
local function each_of_page(command, key, step, look)
  local from, passed = match(cursor, '^(%d+)/?(%d*)$')
  local following, found = unpack(call(command, key, from, 'COUNT', count))
  local first, last = (tonumber(passed) or 0) * step + 1, #found
  if last - first + 1 > 2 * count * step then
    last = first + count * step - 1
    following = from .. '/' .. int(last / step)
  end
  for i = first, last, step do look(found[i], found[i + 1]) end
  return following
end

local following_cursor = '0'
if names ~= '' then
  for scope, name in gmatch(names, '(%a+):(%S*)') do add(scope, name) end
elseif place == 'limits' then
  following_cursor = each_of_page('SSCAN', K.limits_with('whole'), 1, add_field)
else
  local key = place == 'kinds' and K.kinds() or K.nodes()
  following_cursor = each_of_page('HSCAN', key, 2, function(queue, text)
    local is_plain = place == 'kinds' and match(text, '^plain')
    if not is_plain and not lacks_nothing(queue) then add('queue', queue) end
  end)
end
return { following_cursor, has_default, unpack(rows) }
