-- The walk through all that is stored, page by page: to each job something must lead, and what is
-- not used any more and goes with no job goes here: queues, unique keys, counts,
-- dead letters, what limits left behind. Each reap looks at a page of it, and so does each claim
-- that found no job; after everything was looked at, they rest for a while.
--   its note: part cursor, how far it has come; when it goes on is in the shard's record
local PAGE = 64 -- entries that one call looks at
local FORGOTTEN_MOST = 64 -- idle flows of queues that one call forgets
local UNTIL_NEXT_SECONDS = 600 -- after all parts, until the first is looked at again
local UNUSED_SECONDS = 86400 -- a queue without jobs and claims is kept this long
local PLACED_MOST = 8 -- jobs for which one call finds a place
local QUEUE_ENTRIES = 8 -- to look at a queue counts as much as these
local PARTS = { 'dead_letters', 'shard', 'unique', 'counts', 'shared_limits',
  'indexed_tasks', 'jobs', 'task_rates', 'progress', 'workers' }
local COUNTED = { kind = true, unnamed = true, places = true }
local COUNTED_SECONDS = 2592000 -- a count is kept this long after it was last raised

-- Look at each field of a hash from this cursor on, at most a page; return the following cursor.
function RebuildPages.fields(key, cursor, look)
  local following_cursor, found = unpack(call('HSCAN', key, cursor, 'COUNT', PAGE))
  RebuildPages.look_at(found, look)
  return following_cursor
end

function RebuildPages.look_at(found, look)
  local texts, names = {}, {}
  for i = 1, #found, 2 do
    insert(names, found[i])
    texts[found[i]] = found[i + 1]
  end
  table.sort(names)
  S.page_left = S.page_left - #names
  for _, name in ipairs(names) do look(name, texts[name]) end
end

function RebuildPages.is_unused(queue)
  return call('EXISTS', K.ready(queue), K.indebted(queue), K.jobs(queue), K.slots_of_queue(queue),
    K.unreported(queue)) == 0
end

-- A queue goes that was found unused a day ago and has not been used since: a publish, an import, a
-- replay or a claim takes the mark away.
function RebuildPages.queue(queue)
  local node = Records.node(queue)
  local since = tonumber(node.unused)
  if node.dirty then return end
  if not RebuildPages.is_unused(queue) then
    if since then Records.register(queue) end
  elseif not since or node.last_fence / 1000000 > since then
    node.unused, node.dirty = now_text, true
  elseif now >= since + UNUSED_SECONDS then
    Shard.remove('queue:' .. queue)
    Shard.remove('queues')
    Shard.remove('across:' .. queue)
    call('HDEL', K.shard(), 'kind:' .. queue)
    call('DEL', K.token(queue))
    S.nodes[queue] = nil
  end
end

-- The shard's hash. Queues that no claim names any more also keep the debts of their last
-- workspaces: a page comes again while it has more of these than one call forgets. Kept replies go
-- in time.
function RebuildPages.shard(cursor)
  local left = FORGOTTEN_MOST
  Shard.write_fields() -- what this call has changed is not what it reads
  local following_cursor = RebuildPages.fields(K.shard(), cursor, function(field, text)
    local kind, name = match(field, '^(%a+):(.*)$')
    if kind == 'queue' then
      if left > 0 then left = left - Tick.forget_idle(name, left) end
      if left > 0 then RebuildPages.queue(name) end
    elseif COUNTED[kind] then RebuildPages.count(K.shard(), field, text)
    elseif kind == 'task' and now >= Tasks.seen(text) + COUNTED_SECONDS then Shard.remove(field)
    elseif kind == 'owner' then
      local until_then = unpacked('<d', text) or 0
      if not (now < until_then and until_then < LAST_TIME) then Shard.remove(field) end
    end
  end)
  return left > 0 and following_cursor or nil
end

-- Counts and kinds of queues end in the time when they last changed.
function RebuildPages.count(key, name, text)
  local last = tonumber(match(text, ' (%S+)$') or nil)
  if not last or now >= last + COUNTED_SECONDS then call('HDEL', key, name) end
end

-- A task that had a limit holds slots until nothing of it is left.
function RebuildPages.indexed_task(task, how)
  local key = '/' .. task
  if how == 'all' and not Limits.of_task(task)
    and call('EXISTS', K.slots(key), K.nodes_of_shared_limit(key)) == 0 then
    Limits.forget()
    call('HDEL', K.indexed_tasks(), task)
  end
end

-- A report goes whose lease has ended, or that cannot be read.
function RebuildPages.progress(field, text)
  local is_read = find(text, '^%d%S* %S+ %S+ [%d.]+$') or find(field, '^!')
  if is_read then Running.drop_if_over(field) else call('HDEL', K.progress(), field) end
end

-- An owner goes a day after its last sign of life, and what an app has declared with the last
-- worker that told it.
function RebuildPages.worker(field, text)
  local digest = match(field, '^#(.*)$')
  for _, about in ipairs(digest and call('HGETALL', K.workers()) or { text }) do
    local seen, told = match(about, '^([%d.]+) (%S*)')
    if seen and now - seen <= UNUSED_SECONDS and told == (digest or told) then return end
  end
  call('HDEL', K.workers(), field)
end

-- What is looked at field by field of a hash of this kind. A rate is over once it could start a
-- full burst again; where it was the last thing of its task, no start writes that down.
function RebuildPages.look_of(kind)
  local looks = { unique = Enqueue.drop_if_over,
    indexed_tasks = RebuildPages.indexed_task,
    progress = RebuildPages.progress, workers = RebuildPages.worker,
    shared_limits = function(key) Settle.shared_limit(key) end }
  return looks[kind] or function(...) RebuildPages.count(K[kind](), ...) end
end

-- Each job of each queue: something must lead to it. The cursor is that of a queue's jobs, and the
-- place of the queue among all. A page comes again while it has more jobs to which nothing leads
-- than one call places.
function RebuildPages.jobs(cursor)
  local of_jobs, at = match(cursor, '^(%d+)/(%d+)$')
  at = tonumber(at or 1)
  local queue, left, found, is_cut = Shard.queues()[at], PLACED_MOST, nil, nil
  if not queue then return '0' end
  of_jobs, found, is_cut = Jobs.page(K.jobs(queue), of_jobs or '0', PAGE)
  S.page_left = S.page_left - QUEUE_ENTRIES
  RebuildPages.look_at(found, function(id, record)
    if left > 0 and RebuildJobs.look_at(queue, id, record) then left = left - 1 end
  end)
  if is_cut then S.page_left = 0 end
  if left == 0 then return nil end
  return of_jobs .. '/' .. int(of_jobs == '0' and at + 1 or at)
end

-- One field by itself, for an operator. An answer of a limit provider is forgotten once its
-- workspace has nothing. The leases of a task that is indexed get their slots one by one then.
function RebuildPages.field(_, kind, name)
  if kind == 'asked' then
    if not call('ZSCORE', K.asked(), name) then call('ZADD', K.asked(), 0, name) end
  elseif kind == 'indexed_tasks' then
    SharedLimits.not_indexed({ name })
    SharedLimits.all_indexed({ name })
  elseif kind == 'limits' then
    Limits.forget()
    if name ~= 'settings' then Limits.list(name, call('HGET', K.limits(), name) or '') end
  elseif kind == 'shard' then
    Shard.remove(name)
  else
    local text = call('HGET', K[kind](), name)
    if text then RebuildPages.look_of(kind)(name, text) end
    if call('HEXISTS', K[kind](), name) == 0 then return 'removed' end
  end
  return 'written'
end

-- One page of a part; return the following cursor, or nil if this page must come again.
function RebuildPages.page(part, cursor)
  local more
  if part == 'dead_letters' then
    more = DeadLetters.expire_oldest('') + DeadLetters.expire_oldest('!!')
  elseif part == 'task_rates' then more = TaskRates.drop_past(PAGE)
  elseif part == 'shard' then return RebuildPages.shard(cursor)
  elseif part == 'jobs' then return RebuildPages.jobs(cursor)
  else return RebuildPages.fields(K[part](), cursor, RebuildPages.look_of(part)) end
  S.page_left = S.page_left - more
  return more > 0 and '1' or '0'
end

function RebuildPages.load()
  local part, cursor = match(call('HGET', K.shard(), 'rebuild') or '', '^(%d+) (%S+)$')
  part = tonumber(part)
  if not PARTS[part] then return { part = 1, cursor = '0' } end
  return { part = part, cursor = cursor }
end

function RebuildPages.save(progress)
  call('HSET', K.shard(), 'rebuild', int(progress.part) .. ' ' .. progress.cursor)
end

function RebuildPages.begin_next_part(progress)
  progress.part, progress.cursor = progress.part + 1, '0'
  if PARTS[progress.part] then return true end
  progress.part, Shard.load().rebuild_at = 1, now + UNTIL_NEXT_SECONDS
  Limits.forget()
end

-- A page of a part, or several parts that are small. nil: this page must come again.
function RebuildPages.go_on(progress)
  S.page_left = PAGE
  repeat
    local cursor = RebuildPages.page(PARTS[progress.part], progress.cursor)
    progress.cursor = cursor or progress.cursor
    local has_more = cursor and (cursor ~= '0' or RebuildPages.begin_next_part(progress))
  until not has_more or S.page_left <= 0
end

-- It stops nothing: a part that fails is noted, and the next one goes on.
function RebuildPages.run()
  if now < Shard.load().rebuild_at then return end
  local progress = RebuildPages.load()
  local done, said = pcall(RebuildPages.go_on, progress)
  if not done then
    Shard.set_aside('failure', 'rebuild ' .. int(progress.part), said)
    for _, ws in pairs(S.workspaces) do Rebuild.stands(ws) end
    Shard.load().drain = '0'
    RebuildPages.begin_next_part(progress)
  end
  RebuildPages.save(progress)
end

