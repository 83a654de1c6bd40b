-- How long a task takes on average, over all workspaces. A task is known by its name, from its
-- first publish until it has not been named for a month.
--   tasks: task -> average seen; '' -> sum count
--   average: in microseconds, - until one has ended; seen: when it was named or ended last

function Tasks.load(task)
  if S.averages[task] ~= nil then return end
  local text, all = unpack(call('HMGET', K.tasks(), task, ''))
  S.averages[task] = tonumber(match(text or '', '^%S+')) or false
  if S.averages[''] then return end
  local sum, count = match(all or '0 0', '^(%S+) (%S+)$')
  S.averages[''] = { sum = tonumber(sum) or 0, count = tonumber(count) or 0 }
end

-- A publish or an operator names it.
function Tasks.name(task)
  local average = match(call('HGET', K.tasks(), task) or '-', '^%S+')
  call('HSET', K.tasks(), task, average .. ' ' .. now_text)
end

-- The average over all workspaces; of a task that has none, over all tasks; 0: nothing is known.
function Tasks.average_of(task)
  Tasks.load(task)
  local all = S.averages['']
  return S.averages[task] or (all.count > 0 and Fairness.whole(all.sum / all.count) or 0)
end

function Tasks.record(task, worked)
  Tasks.load(task)
  local average, all = Fairness.estimate_after(S.averages[task] or nil, worked), S.averages['']
  S.averages[task], all.sum, all.count = average, all.sum + worked, all.count + 1
  call('HSET', K.tasks(), task, int(average) .. ' ' .. now_text, '',
    int(all.sum) .. ' ' .. int(all.count))
end
