-- How long a task takes on average, over all workspaces. A task is known by its name, from its
-- first publish until it has not been named for a month.
--   in the shard's hash: task:name -> average seen; tasks -> sum count
--   average: in microseconds, - until one has ended; seen: when it was named or ended last

function Tasks.load(task)
  if S.averages[task] ~= nil then return end
  local text, all = unpack(call('HMGET', K.shard(), 'task:' .. task, 'tasks'))
  S.averages[task] = tonumber(match(text or '', '^%S+')) or false
  if S.averages[''] then return end
  local sum, count = match(all or '0 0', '^(%S+) (%S+)$')
  S.averages[''] = { sum = tonumber(sum) or 0, count = tonumber(count) or 0, changed = {} }
end

-- A publish or an operator names it.
function Tasks.name(task)
  local average = match(call('HGET', K.shard(), 'task:' .. task) or '-', '^%S+')
  call('HSET', K.shard(), 'task:' .. task, average .. ' ' .. now_text)
end

-- The average over all workspaces; of a task that has none, over all tasks; 0: nothing is known.
function Tasks.average_of(task)
  Tasks.load(task)
  local all = S.averages['']
  return S.averages[task] or (all.count > 0 and Fairness.whole(all.sum / all.count) or 0)
end

function Tasks.record(task, worked)
  Tasks.load(task)
  local averages = S.averages
  local all = averages['']
  averages[task] = Fairness.estimate_after(averages[task] or nil, worked)
  all.sum, all.count, all.changed[task] = all.sum + worked, all.count + 1, true
end

-- Write the averages that this call has changed.
function Tasks.save()
  local all = S.averages['']
  Shard.put('tasks', int(all.sum) .. ' ' .. int(all.count))
  for task in pairs(all.changed) do
    Shard.put('task:' .. task, int(S.averages[task]) .. ' ' .. now_text)
  end
end
