-- COLD: limits over many workspaces inside a queue, as they are stored.
local by_task = {}

-- False: it has no limit of its own and is not paused, so it has no node either.
function Caps.of_task(number)
  if by_task[number] == nil then
    local texts = Limits.texts('boot:task:' .. number, 'live:task:' .. number, 'pause:task:' .. number, 'boot:observe:')
    by_task[number] = (texts[1] ~= '' or texts[2] ~= '' or find(texts[3], 'paused') ~= nil) and Limits.merged(texts)
  end
  return by_task[number]
end

-- What drains needs no node: only publishes ask.
function Caps.drains(number)
  return Limits.any('tasks') and find(Limits.texts('pause:task:' .. number)[1], 'draining') ~= nil
end

-- What workspaces with this parent share; defaults are for single ones.
function Caps.of_group(name)
  return Limits.merged(Limits.texts('boot:workspace:' .. name, 'given:workspace:' .. name, 'live:workspace:' .. name, 'boot:observe:'))
end

-- Note whether any task has a limit or is held, so that where none has nobody asks for each.
function Caps.mark_tasks()
  call('HDEL', K.limits(), 'tasks')
  for _, field in ipairs(call('HKEYS', K.limits())) do
    if match(field, '^%a+:task:') then call('HSET', K.limits(), 'tasks', 1) end
  end
end
