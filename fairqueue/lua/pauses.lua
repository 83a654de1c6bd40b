-- What is paused or draining.
-- ARGV now
-- RETURNS {scope, name, how, ...}
-- WRITES nothing
local found = {}
for _, field in ipairs(call('SMEMBERS', K.limits_with('pauses'))) do
  local scope, name = match(field, '^pause:(%a+):(.*)$')
  insert(found, scope)
  insert(found, scope == 'task' and call('HGET', K.tasks(), '#' .. name) or name)
  insert(found, match(call('HGET', K.limits(), field), '^%a+'))
end
return found
