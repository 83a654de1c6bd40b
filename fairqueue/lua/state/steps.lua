-- What the finished steps of a task have returned, for its later runs: a third kind of dead letter,
-- under its workspace's name behind '!!', by the id of its framework's message.
--   letter: updated queue steps fence job\nworkspace task 0 0 0 updated\nline\n...
--   fence:  the highest that has written; job: the one that had it, and ! once a child has ended
--           since, see below
--   line:   step seconds value; value: JSON
-- Where the task has ended well, it is as old as what expires, and counts until its job has gone:
-- its worker may die before it acks.

-- The letter of a task; nil: there is none, or that task has ended well and this is another one of
-- its id.
function Steps.read(name, id)
  local letter = DeadLetters.read('!!' .. name, id)
  local is_over = Steps.have_ended(letter) and not DeadLetters.has_job(letter)
  return not is_over and letter or nil
end

function Steps.have_ended(letter)
  local updated = tonumber(match(letter or '', '^%S+'))
  return updated and updated <= now - DeadLetters.bounds('!!')
end

-- The lines of a letter; nil: there is none, or it cannot be read.
function Steps.lines_of(letter)
  return match(letter or '', '^[%d.]+ %S+ steps %d+ %S+\n[^\n]*\n(.*)$')
end

-- Open the steps of a task to a run: its lease, or a stand-in if it was acked early, and the lines;
-- nil: it may not write.
function Steps.open(fence, name, id, early)
  local l, letter = Running.lease(fence, name), Steps.read(name, id)
  if not l then
    if early ~= '1' then return nil end
    Shard.refuse_moved(name)
    l = { queue = '-', id = '-', task = '-' }
  end
  local last = tonumber(match(letter or '', '^%S+ %S+ %S+ (%d+) ') or 0)
  if last > tonumber(fence) then return nil end
  l.fence = fence
  return l, Steps.lines_of(letter) or ''
end

function Steps.write(l, name, id, at, lines)
  local record = Jobs.new(name, l.task, 0, lines, '')
  local head = concat({ num(at), l.queue, 'steps', l.fence, l.id }, ' ')
  DeadLetters.keep('!!' .. name, id, num(at), head .. '\n' .. record)
end

-- The line of a step; nil: it has not finished.
function Steps.line_of(lines, step)
  local at = find('\n' .. lines, '\n' .. step .. ' ', 1, true)
  return at and match(lines, '^[^\n]*', at)
end

function Steps.drop(name, id)
  DeadLetters.take('!!' .. name, id)
  DeadLetters.list_workspace('!!' .. name)
end

-- A task that waits for its children is suspended: its job is given back, and holds nothing. The
-- end of a child wakes it, see api/wake_parent.lua. One that is not suspended yet by then is marked
-- in the record of its steps, and is not suspended at all.
--
-- Note whose job waits. Return whether a child has ended since its run has written last. It has
-- started in time, so it does not expire any more.
function Steps.suspend(l, id)
  Jobs.forget_expiry(l.queue, l.id)
  local letter = DeadLetters.read('!!' .. l.workspace, id)
  local fence, woken = match(letter or '', '^%S+ %S+ steps (%d+) (%S+)')
  if not fence or tonumber(fence) > tonumber(l.fence) then return false end
  Steps.write(l, l.workspace, id, now, Steps.lines_of(letter) or '')
  return woken == l.id .. '!'
end

-- The id of the framework's message whose job this is.
function Steps.task_of(job)
  local own = match(job, '[^/]*$')
  return match(own, '^' .. ('[%w_]'):rep(16) .. '~(.+)$') or own
end

-- Which steps of a job's task have finished, and its children ("name\nnumber", encoded): "step
-- seconds value" in lines; the value is that of a child, else empty.
function Steps.told(name, job)
  local told = {}
  local lines = Steps.lines_of(Steps.read(name, Steps.task_of(job))) or ''
  for step, seconds, value in gmatch(lines, '([^ \n]+) (%S+) ([^\n]*)\n') do
    value = find(step, '%0A', 1, true) and value or ''
    insert(told, step .. ' ' .. seconds .. ' ' .. value .. '\n')
  end
  return concat(told)
end
