-- What an operator's repair does with entries that belong to no record of a workspace or lease:
-- dead letters, notices, counts, keys as such. See mend_order.lua.
local SIZE_OF = { hash = 'HLEN', set = 'SCARD', zset = 'ZCARD', list = 'LLEN', string = 'GET' }

-- A dead letter stands in the order by age, and that of a cancelled job has its notice.
function MendEntries.letter(_, name, id)
  local letter = DeadLetters.read(name, id)
  local died = letter and tonumber(DeadLetters.death_of(letter) or nil)
  if letter and not died then
    Shard.set_aside('letter', name .. ' ' .. id, letter)
    call('HDEL', K.dead_letters(name), id)
  end
  if not died then
    call('ZREM', K.dead_letters_by_age(name), id)
  else
    call('ZADD', K.dead_letters_by_age(name), num(died), id)
    if DeadLetters.is_of_cancelled(name) then
      call('ZADD', K.unreported(DeadLetters.queue_of(letter)), now_text, name .. ' ' .. id)
    end
  end
  DeadLetters.list_workspace(name)
  return 'listed'
end

function MendEntries.letters(_, name)
  DeadLetters.list_workspace(name)
  return 'listed'
end

-- A notice of what is neither dead nor cancelled.
function MendEntries.notice(_, queue, notice)
  local name, id = match(notice, '^(%S+) (%S+)$')
  if id and DeadLetters.read(name, id) then return end
  call('ZREM', K.unreported(queue), notice)
  return 'removed'
end

-- An answer of a limit provider is forgotten once its workspace has nothing.
function MendEntries.asked(_, name)
  if call('ZSCORE', K.asked(), name) then return end
  call('ZADD', K.asked(), 0, name)
  return 'listed'
end

function MendEntries.count(_, kind, name)
  local key = kind == 'lost' and K.lost() or kind == 'observed' and K.observed()
    or K.without_workspace()
  local text = call('HGET', key, name)
  if not text or match(text, ' [%d.]+$') then return end
  call('HSET', key, name, text .. ' ' .. now_text)
  return 'counted'
end

function MendEntries.keyed(_, job)
  local field = call('HGET', K.keyed(), job)
  local held = field and call('HGET', K.unique(), field)
  if not field or held and match(held, '^(%S+ %S+)') == job then return end
  call('HDEL', K.keyed(), job)
  return 'removed'
end

-- The next process that uses the queue declares what it is.
function MendEntries.kind(_, queue)
  call('HDEL', K.kinds(), queue)
  return 'removed'
end

-- What an owner takes jobs from goes with the owner.
function MendEntries.worker(_, owner)
  for _, text in ipairs(call('ZRANGE', K.workers(), 0, -1)) do
    if match(text, '^%S+') == owner then return end
  end
  call('HDEL', K.worker_queues(), owner)
  return 'removed'
end

-- An entry among the rates of tasks that names no workspace and task.
function MendEntries.task_rate(_, member)
  if match(member, '^[^:]+:[^:]+$') then return end
  call('ZREM', K.task_rates(), member)
  return 'removed'
end

-- A key that expires and should not, or the other way round; a set of ended ids that is not in use
-- any more; the cleanup, which starts again.
function MendEntries.key(how, kind, ...)
  local key = P .. concat({ kind, ... }, ':')
  if how == 'persist' then
    call('PERSIST', key)
    return 'kept'
  end
  call('UNLINK', key)
  return 'removed'
end

-- A key that holds something of another type stops every script that needs it.
function MendEntries.foreign(wanted, ...)
  local key = P .. concat({ ... }, ':')
  if pcall(call, SIZE_OF[wanted], key) then return end
  call('UNLINK', key)
  return 'removed'
end

-- The shard's own record starts again where it cannot be read: see base.lua.
function MendEntries.shard()
  call('HDEL', K.tasks(), '#plain') -- the next publish that may take the short way sets it
  Sweep.beat()
  return 'restarted'
end
