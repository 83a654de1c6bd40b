-- What every call reads and writes is one hash of the shard, read once and written once: its own
-- record, those of nodes, tasks and owners, and how queues stand beside other shards. Its fields:
-- record, settings (see limits.lua), queue:, task:, owner: and across: with a name, queues, their
-- names, and tasks, of all tasks.
-- And the ids of jobs that ended a moment ago.
-- In the shard's record fence, arrival and beat only grow:
--   beat offset window fence arrival watched due rebuild_at, packed; then
--   gaps watcher drain [spread] format=2
-- beat: when a script last ran; gaps: when none ran, see Tick.beat; watcher, watched: the
-- owner that looks at the next event, and when; drain: how far a changed default has come; window:
-- when the sets below were last written; due: no lease ends and no timer goes
-- off before then, in microseconds; spread: there are other shards; offset: by how much the beat
-- was ahead of Redis's clock, see base.lua; rebuild_at: when the rebuild goes on.
Shard.STEPS = 32 -- the most that one call does besides its own n
Shard.STEPS_KEPT = 8 -- of them for the claim that comes after a tick
Shard.IDLE_STEPS = 128 -- the most that a claim forgets which found no job
Shard.LOOKS = 64 -- flows that one call passes in search of those that can start
local PUT_MOST = 200 -- words of one command
local WINDOW_SECONDS = 60 -- the id of an ended job is known for at least this long
local SHARDS_MOST = 64 -- as in _shards/placement.py
local ASIDE_KEPT = 1000 -- what could not be read, beyond that it is only counted

function Shard.load()
  if S.meta then return S.meta end
  local beat, _, _, fence, arrival, watched, due, rebuild_at =
    struct.unpack(META, meta_text)
  local gaps, watcher, drain = match(meta_text, '^(%S+) (%S+) (%S+) ', PACKED + 1)
  if not drain or not (fence >= 0 and fence + arrival + watched + rebuild_at < NUMBERS_END)
    or due ~= due then -- damaged in the middle
    meta_text, meta_unread, last_window = NO_META, meta_text, 0
    return Shard.load()
  end
  S.meta = { beat = beat, fence = fence, arrival = arrival, watched = watched, due = due,
    rebuild_at = rebuild_at, gaps = gaps, watcher = watcher, drain = drain,
    spread = Shard.is_spread() and ' spread ' or ' ' }
  if meta_unread then Shard.set_aside('shard', '-', meta_unread) end
  return S.meta
end

-- A lease ends then, or a timer goes off.
function Shard.expect(at)
  local meta, due = S.meta or Shard.load(), math.floor(at * 1000000)
  if due < meta.due then meta.due = due end
end

-- Whether time may have brought something.
function Shard.is_due()
  return (S.meta or Shard.load()).due <= now * 1000000
end

-- Whether there are other shards, where nothing else of the record is needed.
function Shard.is_spread()
  return find(meta_text, ' spread ', PACKED, true)
end

-- A fence is above the last one and above the time in microseconds. So fences keep growing where
-- Redis has lost its data or its newest writes, and no old lease is taken for a new one. Divided by
-- 64 it leaves the number of its shard, so no two shards issue the same.
function Shard.fence_after(last)
  local above = max(last, now * 1000000)
  return above - above % SHARDS_MOST + SHARDS_MOST + match(P, '%d+', -4)
end

function Shard.next_fence()
  local meta = S.meta or Shard.load()
  meta.fence = Shard.fence_after(meta.fence)
  return int(meta.fence)
end

function Shard.save()
  if S.meta or offset > 0 then
    local meta = Shard.load()
    local text = struct.pack(META, meta.beat, offset, last_window, meta.fence, meta.arrival,
      meta.watched, meta.due, meta.rebuild_at) .. meta.gaps .. ' '
      .. meta.watcher .. ' ' .. meta.drain .. meta.spread .. 'format=' .. FORMAT
    if text ~= meta_text then Shard.put('record', text) end
  end
  Shard.write_fields()
end

-- A field of the shard's hash, as it was when the call began.
function Shard.field(field)
  local text = S.fields[field]
  if text == nil then return call('HGET', K.shard(), field) end
  return text
end

-- It is written when the call ends.
function Shard.put(field, text)
  local changed = S.changed_fields
  local n = #changed
  changed[n + 1], changed[n + 2] = field, text
  if n >= PUT_MOST then Shard.write_fields() end
end

function Shard.write_fields()
  local changed = S.changed_fields
  if not changed[1] then return end
  call('HSET', K.shard(), unpack(changed))
  S.changed_fields = {}
end

-- What is to be written goes first: it may be this field.
function Shard.remove(field)
  Shard.write_fields()
  call('HDEL', K.shard(), field)
  S.fields[field] = false
end

-- The queues that are known. Their names stand in a field, since there may be many others: it goes
-- when a queue comes or goes, and comes when it is needed.
function Shard.queues()
  local queues, listed = {}, Shard.field('queues')
  for queue in gmatch(listed or '', '%S+') do insert(queues, queue) end
  if listed then return queues end
  for _, field in ipairs(call('HKEYS', K.shard())) do
    insert(queues, match(field, '^queue:(.+)$'))
  end
  table.sort(queues)
  S.fields.queues = concat(queues, ' ')
  Shard.put('queues', S.fields.queues)
  return queues
end

-- One more step of what a call does besides its own n; false: this call has none left.
function Shard.take_step()
  if Shard.is_spent() then return false end
  S.steps_taken = S.steps_taken + 1
  return true
end

-- A flow at the head of its order cannot start: whether this call may look at the next one.
function Shard.take_look()
  S.looks_taken = S.looks_taken + 1
  return S.looks_taken < Shard.LOOKS
end

function Shard.steps_left()
  return max(0, Shard.STEPS - S.steps_kept - S.steps_taken)
end

function Shard.tick_steps_left()
  return max(0, Shard.STEPS - Shard.STEPS_KEPT - S.steps_taken)
end

function Shard.is_spent()
  return S.steps_taken >= Shard.STEPS - S.steps_kept
end

-- This many more were taken at once.
function Shard.took_steps(n)
  S.steps_taken = S.steps_taken + n
end

-- What was set aside, in words.
function Shard.told()
  local texts = {}
  for i, one in ipairs(S.set_aside) do texts[i] = one[1] .. ' ' .. one[2] end
  return concat(texts, ', ')
end

-- Sets of ended ids that are no longer in use go. They go by UNLINK and not by a time to live: one
-- may be so large that to free it in the foreground would stop Redis.
function Shard.drop_ended()
  local last, window = last_window, Shard.window()
  for w = max(1, last - 1), min(last, window - 2) do call('UNLINK', K.ended(int(w))) end
  if last < window - 1 then Shard.note_window(0) end
end

-- Two sets that rotate hold the ids of ended jobs, so that a repeated publish is not a new job.
function Shard.window()
  return (now - now % WINDOW_SECONDS) / WINDOW_SECONDS
end

-- The window of now; the last one, where the clock went back since the last beat.
function Shard.ended_window()
  if not S.this_window then
    S.this_window = max(Shard.window(), last_window)
  end
  return S.this_window
end

function Shard.has_ended(id)
  local window = Shard.ended_window()
  return call('SISMEMBER', K.ended(int(window)), id) == 1
    or call('SISMEMBER', K.ended(int(window - 1)), id) == 1
end

function Shard.remember_ended(...)
  local window = Shard.ended_window()
  call('SADD', K.ended(int(window)), ...)
  if last_window == window then return end
  Shard.drop_ended()
  Shard.note_window(window)
end

function Shard.note_window(window)
  last_window = window
  Shard.load()
end

-- Sets that are no longer in use go.
function Shard.drop_windows()
  if last_window ~= Shard.window() then Shard.drop_ended() end
end

-- Whether a workspace moves, to this shard or away from it, or has moved: see moves.lua.
function Shard.has_moved(name)
  return find(call('HGET', K.moved(), name) or '', '^[^|]') ~= nil
end

function Shard.refuse_moved(name)
  if Shard.has_moved(name) then error('MOVES ' .. name, 0) end
end

-- The kind of a queue as it was declared; nil: it was not.
function Shard.kind_of(queue)
  return match(call('HGET', K.shard(), 'kind:' .. queue) or '', '^%a+')
end

-- The number of this shard; nil: there is only this one.
function Shard.here()
  return match(P, ':(%d+)}:$')
end

-- One more job of a task named no workspace: how many there were, and when the last was.
function Shard.count_unnamed(task)
  local field = 'unnamed:' .. task
  local n = match(call('HGET', K.shard(), field) or '0', '^%d+')
  call('HSET', K.shard(), field, int(n + 1) .. ' ' .. now_text)
end

-- The counts in a hash, by what this pattern captures of their names: kind, count, ...
function Shard.counts(key, pattern)
  local counts = {}
  for _, field in ipairs(call('HKEYS', key)) do
    local kind = match(field, pattern)
    if kind then insert(counts, kind) end
    if kind then insert(counts, call('HGET', key, field)) end
  end
  return counts
end

-- Count events that no process sees, since the store began. The number is for people: a count
-- that fails stops nothing.
function Shard.count_in_all(what, n)
  pcall(call, 'HINCRBY', K.shard(), what, n)
end

-- This cannot be read, or has no record (text is nil). It is passed, and kept for an operator.
function Shard.set_aside(kind, name, text)
  if type(text) == 'table' then text = text.err end -- what failed
  insert(S.set_aside, { kind, name, tostring(text or '') })
end

function Shard.keeps_aside()
  return call('HLEN', K.set_aside()) < ASIDE_KEPT
end

function Shard.save_aside()
  Shard.load()
  local kept = call('HLEN', K.set_aside())
  for _, one in ipairs(S.set_aside) do
    local kind, name, text = unpack(one)
    call('HINCRBY', K.set_aside(), '#' .. kind, 1)
    if kept < ASIDE_KEPT then
      kept = kept + call('HSET', K.set_aside(), kind .. ' ' .. name, now_text .. ' ' .. text)
    end
  end
  S.set_aside = {}
end
