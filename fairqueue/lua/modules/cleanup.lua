-- What is not used any more and that no job takes with it goes here: queues and their kinds, unique
-- keys, counts, dead letters, what limits left behind. Each reap looks at a page of it, and so does
-- each claim that found no job; after everything was looked at, they rest for a while.
--   cleanup: part cursor at
--     part, cursor, at: how far it has come, and when it goes on
local PAGE = 64 -- entries that one call looks at
local PAGE_BYTES = 131072 -- of jobs, whose records have their payloads
local FORGOTTEN_MOST = 64 -- idle flows of queues that one call forgets
local UNTIL_NEXT_SECONDS = 600 -- after all parts, until the first is looked at again
local UNUSED_SECONDS = 86400 -- a queue without jobs and claims is kept this long
local PLACED_MOST = 8 -- jobs for which one call finds a place
local QUEUE_ENTRIES = 8 -- to find the next queue counts as much as these
local COUNTED_SECONDS = 2592000 -- a count is kept this long after it was last raised

-- Look at each field of a hash from this cursor on, at most a page; return the following cursor.
function Cleanup.fields(key, cursor, look, count)
  local following_cursor, found = unpack(call('HSCAN', key, cursor, 'COUNT', count or PAGE))
  local texts, names = {}, {}
  for i = 1, #found, 2 do
    insert(names, found[i])
    texts[found[i]] = found[i + 1]
  end
  table.sort(names)
  S.cleanup_left = S.cleanup_left - #names
  for _, name in ipairs(names) do look(name, texts[name]) end
  return following_cursor
end

function Cleanup.is_unused(queue)
  return call('EXISTS', K.ready(queue), K.finish(queue), K.jobs(queue), K.slots_of_queue(queue),
    K.unreported(queue)) == 0
end

-- A queue goes that was found unused a day ago and has not been used since: a publish, an import, a
-- replay or a claim takes the mark away.
function Cleanup.queue(queue)
  local node = Records.node(queue)
  local since = tonumber(node.unused)
  if node.dirty then return end
  if not Cleanup.is_unused(queue) then
    if since then Records.register(queue) end
  elseif not since or node.last_fence / 1000000 > since then
    node.unused, node.dirty = now_text, true
  elseif now >= since + UNUSED_SECONDS then
    call('HDEL', K.nodes(), queue)
    call('HDEL', K.across(), queue)
    call('HDEL', K.kinds(), queue)
    call('DEL', K.token(queue))
    S.nodes[queue] = nil
  end
end

-- Queues; those that no claim names any more also keep the debts of their last workspaces. A page
-- comes again while it has more of these than one call forgets.
function Cleanup.queues(cursor)
  local left = FORGOTTEN_MOST
  local following_cursor = Cleanup.fields(K.nodes(), cursor, function(queue)
    if left > 0 then left = left - Sweep.forget_idle(queue, left) end
    if left > 0 then Cleanup.queue(queue) end
  end)
  return left > 0 and following_cursor or nil
end

-- A kind was declared for a queue, and is not used: the same holds, but no job was ever there.
function Cleanup.kinds(cursor)
  return Cleanup.fields(K.kinds(), cursor, function(queue, text)
    local kind, since = match(text, '^(%a+)/?(.*)$')
    if call('HEXISTS', K.nodes(), queue) == 1 then
      if since ~= '' then call('HSET', K.kinds(), queue, kind) end
    elseif not tonumber(since) then
      call('HSET', K.kinds(), queue, kind .. '/' .. now_text)
    elseif now >= since + UNUSED_SECONDS then
      call('HDEL', K.kinds(), queue)
    end
  end)
end

function Cleanup.unique(cursor)
  return Cleanup.fields(K.unique(), cursor, Enqueue.drop_if_over)
end

-- The key of a job is found by it, to free it when the job is dropped before its time.
function Cleanup.keyed(cursor)
  return Cleanup.fields(K.keyed(), cursor, function(job, field)
    local held = call('HGET', K.unique(), field) or ''
    if match(held, '^(%S+ %S+)') ~= job then call('HDEL', K.keyed(), job) end
  end)
end

-- Counts end in the time when they were last raised; which: a pattern of those that may go.
function Cleanup.counts(key, cursor, which)
  return Cleanup.fields(key, cursor, function(name, text)
    local last = tonumber(match(text, '(%S+)$'))
    if which and not find(name, which) then return end
    if not last or now >= last + COUNTED_SECONDS then call('HDEL', key, name) end
  end)
end

function Cleanup.lost(cursor)
  return Cleanup.counts(K.lost(), cursor)
end

function Cleanup.observed(cursor)
  return Cleanup.counts(K.observed(), cursor)
end

function Cleanup.without_workspace(cursor)
  return Cleanup.counts(K.without_workspace(), cursor)
end

-- A rate is over once it could start a full burst again; where it was the last thing of its task,
-- no start writes that down.
function Cleanup.shared_limits(cursor)
  return Cleanup.fields(K.shared_limits(), cursor, function(key) Settle.shared_limit(key) end)
end

-- The same of rates of a task in a workspace.
function Cleanup.task_rates()
  local n = TaskRates.drop_past(PAGE)
  S.cleanup_left = S.cleanup_left - n
  return n > 0 and '1' or '0'
end

-- A task that had a limit holds slots until nothing of it is left.
function Cleanup.indexed_tasks(cursor)
  return Cleanup.fields(K.indexed_tasks(), cursor, function(task, how)
    local key = '/' .. task
    if how == 'all' and not Limits.of_task(task)
      and call('EXISTS', K.slots_of_shared_limit(key), K.nodes_of_shared_limit(key)) == 0 then
      call('HDEL', K.indexed_tasks(), task)
    end
  end)
end

function Cleanup.dead_letters()
  local n = DeadLetters.expire_oldest()
  S.cleanup_left = S.cleanup_left - n
  return n > 0 and '1' or '0'
end

function Cleanup.queue_after(last)
  S.queue_names = S.queue_names or call('HKEYS', K.nodes())
  local found
  for _, queue in ipairs(S.queue_names) do
    if queue > last and not (found and found < queue) then found = queue end
  end
  S.cleanup_left = S.cleanup_left - QUEUE_ENTRIES
  return found
end

-- How many jobs of a queue are a page, judged by the next of them.
function Cleanup.page_of(queue, cursor)
  local record = call('HSCAN', K.jobs(queue), cursor, 'COUNT', 1)[2][2] or ''
  return max(1, min(PAGE, math.floor(PAGE_BYTES / max(1, #record))))
end

-- Each job of each queue: something must lead to it. The cursor is
-- that of a queue's jobs, and the queue. A page comes again while it has more jobs to which nothing
-- leads than one call mends.
function Cleanup.jobs(cursor)
  local of_jobs, queue = match(cursor, '^(%d+)/(.*)$')
  if not queue then
    of_jobs, queue = '0', Cleanup.queue_after('')
  end
  if not queue then return '0' end
  local left, count = PLACED_MOST, int(Cleanup.page_of(queue, of_jobs))
  of_jobs = Cleanup.fields(K.jobs(queue), of_jobs, function(id, record)
    if left > 0 and Rescue.look_at(queue, id, record) then left = left - 1 end
  end, count)
  if tonumber(count) < PAGE then S.cleanup_left = 0 end
  if left == 0 then return nil end
  if of_jobs == '0' then queue = Cleanup.queue_after(queue) end
  return queue and of_jobs .. '/' .. queue or '0'
end

function Cleanup.tasks(cursor)
  return Cleanup.counts(K.tasks(), cursor, '^[^#]')
end

function Cleanup.permit_turns(cursor)
  return Cleanup.fields(K.permit_turns(), cursor, Permits.tidy)
end

function Cleanup.part(n)
  local parts = { Cleanup.dead_letters, Cleanup.queues, Cleanup.kinds, Cleanup.unique,
    Cleanup.keyed, Cleanup.lost, Cleanup.observed, Cleanup.without_workspace, Cleanup.shared_limits,
    Cleanup.indexed_tasks, Cleanup.jobs, Cleanup.tasks, Cleanup.task_rates,
    Cleanup.permit_turns }
  return parts[n]
end

function Cleanup.load()
  local part, cursor, at = match(call('GET', K.cleanup()) or '', '^(%d+) (%S+) ([%d.]+)$')
  if not Cleanup.part(tonumber(part)) then return { part = 1, cursor = '0', at = 0 } end
  return { part = tonumber(part), cursor = cursor, at = tonumber(at) }
end

function Cleanup.save(progress)
  call('SET', K.cleanup(), concat({ int(progress.part), progress.cursor, num(progress.at) }, ' '))
end

function Cleanup.begin_next_part(progress)
  progress.part, progress.cursor = progress.part + 1, '0'
  if Cleanup.part(progress.part) then return true end
  progress.part, progress.at = 1, now + UNTIL_NEXT_SECONDS
end

-- A page of a part, or several parts that are small. nil: this page must come again.
function Cleanup.go_on(progress)
  S.cleanup_left = PAGE
  repeat
    local cursor = Cleanup.part(progress.part)(progress.cursor)
    progress.cursor = cursor or progress.cursor
    local has_more = cursor and (cursor ~= '0' or Cleanup.begin_next_part(progress))
  until not has_more or S.cleanup_left <= 0
end

-- It stops nothing: a part that fails is noted, and the next one goes on.
function Cleanup.run()
  local progress = Cleanup.load()
  if now < progress.at then return end
  local done, said = pcall(Cleanup.go_on, progress)
  if not done then
    local text = type(said) == 'table' and said.err or said
    Shard.set_aside('failure', 'cleanup ' .. int(progress.part), tostring(text))
    for _, ws in pairs(S.workspaces) do Repair.stands(ws) end
    Shard.load().drain = '0'
    Cleanup.begin_next_part(progress)
  end
  Cleanup.save(progress)
end
