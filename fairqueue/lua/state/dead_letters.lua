-- Dead letters: jobs that are kept with the reason of their death, for a time and up to a number.
--   letter: died queue reason deliveries [details]\nthe job's record
--   details: what its framework says of the failure, if that is kept
-- A cancelled job is no dead letter, but one is kept in the same way until its notice is dropped:
-- under its workspace's name behind a '!', which no encoded name has. Their number has no bound,
-- since each is to be reported. Behind '!!' are the finished steps of tasks, see steps.lua.
local KEPT_SECONDS, KEPT_COUNT = 2592000, 10000 -- unless a process has configured others
local STEPS_COUNT = 100000
local STEPS_ABOVE = 10000000000 -- seconds: with steps, workspaces are listed that much later
local NEEDED_SECONDS = 60 -- steps of a job that is still here are kept for so long each time
local EXPIRE_MOST = 32
local FOUND_AT_ONCE = 1000

-- nil in a field: no bound.
function DeadLetters.retention()
  if S.retention then return S.retention end
  local seconds, count = match(call('HGET', K.shard(), 'retention') or '', '^(%S+) (%S+)$')
  S.retention = { seconds = KEPT_SECONDS, count = KEPT_COUNT }
  if seconds then S.retention = { seconds = tonumber(seconds), count = tonumber(count) } end
  return S.retention
end

-- For how long letters of a kind are kept, and how many.
function DeadLetters.bounds(name)
  if DeadLetters.is_of_steps(name) then return KEPT_SECONDS, STEPS_COUNT end
  local kept = DeadLetters.retention()
  return kept.seconds, not DeadLetters.is_of_cancelled(name) and kept.count
end

function DeadLetters.read(name, id)
  return call('HGET', K.dead_letters(name), id)
end

-- The letters of this id, which may name its queue or not; without it, also those of retries, which
-- have ids of their own that end in it.
function DeadLetters.named(name, id)
  if find(id, '/', 1, true) then return { id } end
  local found, cursor, some = {}, '0', nil
  repeat
    cursor, some = unpack(call('HSCAN', K.dead_letters(name), cursor, 'MATCH', name .. '/*' .. id,
      'COUNT', FOUND_AT_ONCE))
    for i = 1, #some, 2 do
      local own = match(some[i], '[^/]*$')
      if own == id or match(own, '^[%w_]+~(.*)$') == id then insert(found, some[i]) end
    end
  until cursor == '0'
  table.sort(found)
  return found
end

function DeadLetters.write(name, id, letter)
  call('HSET', K.dead_letters(name), id, letter)
end

function DeadLetters.queue_of(letter)
  return match(letter, '^%S+ (%S+)')
end

function DeadLetters.record_of(letter)
  return match(letter, '^[^\n]*\n(.*)$')
end

-- When a job died, and why.
function DeadLetters.death_of(letter)
  return match(letter, '^(%S+) %S+ (%S+)')
end

-- List a workspace by its oldest letter.
function DeadLetters.list_workspace(name)
  local oldest = call('ZRANGE', K.dead_letters_by_age(name), '0', '0', 'WITHSCORES')[2]
  if oldest then
    if DeadLetters.is_of_steps(name) then oldest = num(oldest + STEPS_ABOVE) end
    call('ZADD', K.dead_workspaces(), oldest, name)
  else
    call('ZREM', K.dead_workspaces(), name)
  end
end

-- With a notice, a worker reports the failure to the framework. A caller that rejects a job reports
-- it by itself.
function DeadLetters.add(name, queue, id, reason, deliveries, record, has_notice, details)
  DeadLetters.take(name, id)
  local letter = concat({ now_text, queue, reason, int(deliveries),
    details ~= '' and details or nil }, ' ') .. '\n' .. record
  DeadLetters.keep(name, id, now_text, letter, has_notice and queue)
  if DeadLetters.is_of_cancelled(name) then return end
  local is_own = reason == 'max_deliveries' or reason == 'expired'
  Shard.count_in_all('dead_' .. (is_own and reason or 'rejected'), 1)
  Activity.died(name, queue, match(record, '^%S+ (%S+)') or '*')
end

-- Store a letter of this time, and drop the oldest ones where there are too many.
function DeadLetters.keep(name, id, at, letter, notice_queue)
  DeadLetters.write(name, id, letter)
  call('ZADD', K.dead_letters_by_age(name), at, id)
  if notice_queue then call('ZADD', K.unreported(notice_queue), at, name .. ' ' .. id) end
  local _, most = DeadLetters.bounds(name)
  local over = most and call('ZCARD', K.dead_letters_by_age(name)) - most or 0
  if over > 0 then
    local oldest = call('ZRANGE', K.dead_letters_by_age(name), 0, min(over, EXPIRE_MOST) - 1)
    for _, old in ipairs(oldest) do DeadLetters.keep_notice(name, old, old == id) end
  end
  DeadLetters.list_workspace(name)
end

-- There are more letters than are kept: this one goes, and is kept as that of a cancelled job until
-- its failure is reported.
function DeadLetters.keep_notice(name, id, is_dying)
  local queue = DeadLetters.queue_of(DeadLetters.read(name, id) or '')
  local due = queue and call('ZSCORE', K.unreported(queue), name .. ' ' .. id)
  local letter = DeadLetters.drop(name, id, is_dying)
  if not due then return end
  local aside = '!' .. name
  DeadLetters.write(aside, id, letter)
  call('ZADD', K.dead_letters_by_age(aside), DeadLetters.death_of(letter), id)
  call('ZADD', K.unreported(queue), due, aside .. ' ' .. id)
  DeadLetters.list_workspace(aside)
end

-- A job was cancelled while no worker ran it that could report its end.
function DeadLetters.add_cancelled(name, queue, id, deliveries, record)
  DeadLetters.add('!' .. name, queue, id, 'cancelled', deliveries, record, true)
end

function DeadLetters.is_of_cancelled(name)
  return find(name, '^![^!]')
end

function DeadLetters.is_of_steps(name)
  return name:sub(1, 2) == '!!'
end

-- Whether the job that has written these finished steps last is still here.
function DeadLetters.has_job(letter)
  local queue, job = match(letter or '', '^%S+ (%S+) steps %d+ ([^%s!]+)')
  return queue and call('HEXISTS', K.jobs(queue), job) == 1
end

-- A failure was reported: a dead letter stays, that of a cancelled job goes. The same id may have
-- died again since. Return how many notices there were.
function DeadLetters.drop_notice(queue, name, id, died)
  local kept = DeadLetters.has_died(name, id, died) and name or '!' .. name
  if not DeadLetters.has_died(kept, id, died) then return 0 end
  local n = call('ZREM', K.unreported(queue), kept .. ' ' .. id)
  if n == 1 and DeadLetters.is_of_cancelled(kept) then
    DeadLetters.take(kept, id)
    DeadLetters.list_workspace(kept)
  end
  return n
end

function DeadLetters.has_died(name, id, died)
  local at = DeadLetters.death_of(DeadLetters.read(name, id) or '')
  return at and tonumber(at) == tonumber(died)
end

-- Remove a letter and return it; nil: there is none.
function DeadLetters.take(name, id)
  local letter = DeadLetters.read(name, id)
  if not letter then return nil end
  call('HDEL', K.dead_letters(name), id)
  call('ZREM', K.dead_letters_by_age(name), id)
  local queue = DeadLetters.queue_of(letter)
  if queue then call('ZREM', K.unreported(queue), name .. ' ' .. id) end
  return letter
end

-- The same for good: its job blocks no key, though the key may have a time of its own. A job of its
-- id may be here again, unless it is dying.
function DeadLetters.drop(name, id, is_dying)
  local letter = DeadLetters.take(name, id)
  local queue, record = DeadLetters.queue_of(letter or ''), DeadLetters.record_of(letter or '')
  if queue and record and name:sub(1, 1) ~= '!'
    and (is_dying or call('HEXISTS', K.jobs(queue), id) == 0) then
    Jobs.free_key(Jobs.unique_field(record), queue, id)
  end
  return letter
end

-- Drop the letters of a workspace that are too old; return how many. Steps of a job that is still
-- here stay.
function DeadLetters.expire(name)
  local seconds = DeadLetters.bounds(name)
  if not seconds then return 0 end
  local by_age, until_then, n = K.dead_letters_by_age(name), now - seconds, 0
  local old = call('ZRANGEBYSCORE', by_age, '-inf', num(until_then), 'LIMIT', '0', EXPIRE_MOST)
  for _, id in ipairs(old) do
    if DeadLetters.is_of_steps(name) and DeadLetters.has_job(DeadLetters.read(name, id)) then
      call('ZADD', by_age, num(until_then + NEEDED_SECONDS), id)
    else
      DeadLetters.drop(name, id)
      n = n + 1
    end
  end
  if #old > 0 then DeadLetters.list_workspace(name) end
  return n
end

-- The same for the workspace with the oldest letter of a kind: '' or '!!'.
function DeadLetters.expire_oldest(kind)
  local seconds = DeadLetters.bounds(kind)
  if not seconds then return 0 end
  local above = DeadLetters.is_of_steps(kind) and STEPS_ABOVE or 0
  local name = call('ZRANGEBYSCORE', K.dead_workspaces(), num(above), num(above + now - seconds),
    'LIMIT', '0', 1)[1]
  return name and DeadLetters.expire(name) or 0
end
