-- What is paused or draining.
-- ARGV now
-- RETURNS {scope, name, how, ...}
local found, all = {}, call('HGETALL', K.limits())
for i = 1, #all, 2 do
  local scope, name = match(all[i], '^pause:(%a+):(.*)$')
  if scope then
    insert(found, scope)
    insert(found, scope == 'task' and call('HGET', K.tasks(), '#' .. name) or name)
    insert(found, match(all[i + 1], '^%a+'))
  end
end
return found
