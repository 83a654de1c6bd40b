-- One page of all limits, pauses and drains that are stored.
-- ARGV now cursor count
-- ROUTE all MERGE pages
-- RETURNS {now, cursor, {field, text, "time process"}, ...}; a field names a task by its name
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, found = unpack(call('HSCAN', K.limits(), cursor, 'COUNT', count))
local rows = { now_text, following_cursor }
for i = 1, #found, 2 do
  local source, scope, name = match(found[i], '^(%a+):([%a_]+):(.*)$')
  if source then
    if scope == 'task' then name = call('HGET', K.tasks(), '#' .. name) or name end
    local stamp = call('HGET', K.stored_by(), found[i]) or ''
    insert(rows, { concat({ source, scope, name }, ':'), found[i + 1], stamp })
  end
end
return rows
