-- How long a task takes on average, over all workspaces. A task is known by its name, from its
-- first publish until it has not been named for a month.
--   in the shard's hash: task:name -> average seen, packed; tasks -> sum count, packed
--   average: in microseconds, -1 until one has ended; seen: when it was named or ended last

local PAIR = '<dd'

function Tasks.load(task)
  local averages = S.averages
  if averages[task] ~= nil then return end
  local found = call('HMGET', K.shard(), 'task:' .. task, 'tasks')
  averages[task] = Tasks.average(found[1]) or false
  if averages[''] then return end
  local sum, count = unpacked(PAIR, found[2])
  averages[''] = { sum = sum or 0, count = count or 0, changed = {} }
end

-- The average in a record; nil: none has ended.
function Tasks.average(text)
  local average = unpacked(PAIR, text)
  return average and average >= 0 and average or nil
end

function Tasks.seen(text)
  local _, seen = unpacked(PAIR, text)
  return seen or 0
end

-- A publish or an operator names it.
function Tasks.name(task)
  local average = Tasks.average(call('HGET', K.shard(), 'task:' .. task))
  call('HSET', K.shard(), 'task:' .. task, struct.pack(PAIR, average or -1, now))
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
  Shard.put('tasks', struct.pack(PAIR, all.sum, all.count))
  for task in next, all.changed do
    Shard.put('task:' .. task, struct.pack(PAIR, S.averages[task], now))
  end
end
