-- Tasks are numbered, so that lanes and records stay small.
function Tasks.number(name)
  local n = call('HGET', K.tasks(), name)
  if n then return n end
  n = format('%.0f', call('HLEN', K.tasks()) / 2 + 1)
  call('HSET', K.tasks(), name, n, '#' .. n, name)
  return n
end
