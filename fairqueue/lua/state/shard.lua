-- The shard's own record, and the ids of jobs that ended a moment ago.
-- The record is one string, read once and written once; fence, arrival, beat and offset only grow:
--   beat offset fence arrival watched due, packed; gaps watcher drain window [spread] format=2
-- beat: when a script last ran; gaps: when none ran, see Tick.beat; watcher, watched: the
-- owner that looks at the next event, and when; drain: how far a changed default has come; window:
-- when the sets below were last written, as ended[/groups]; due: no lease ends and no timer goes
-- off before then, in microseconds; spread: there are other shards; offset: what is added to
-- Redis's clock, see base.lua.
Shard.STEPS = 32 -- the most that one call does besides its own n
Shard.STEPS_KEPT = 8 -- of them for the claim that comes after a tick
Shard.IDLE_STEPS = 128 -- the most that a claim forgets which found no job
Shard.LOOKS = 64 -- flows that one call passes in search of those that can start
local PACKED = 48 -- bytes of the record's numbers
local WINDOW_SECONDS = 60 -- the id of an ended job is known for at least this long
local GROUP_WINDOW_SECONDS = 3600 -- a group's jobs follow its first within this time of the last
local SHARDS_MOST = 64 -- as in _shards/placement.py
local ASIDE_KEPT = 1000 -- what could not be read, beyond that it is only counted

function Shard.load()
  if S.meta then return S.meta end
  local beat, _, fence, arrival, watched, due = struct.unpack(META, meta_text)
  local gaps, watcher, drain, window = match(meta_text, '^(%S+) (%S+) (%S+) (%S+)', PACKED + 1)
  if not window then -- damaged in the middle
    meta_text, meta_unread = NO_META, meta_text
    return Shard.load()
  end
  S.meta = { beat = beat, fence = fence, arrival = arrival, watched = watched, due = due,
    gaps = gaps, watcher = watcher, drain = drain, window = window,
    spread = Shard.is_spread() and ' spread ' or ' ' }
  if meta_unread then Shard.set_aside('meta', '-', meta_unread) end
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

-- The time of the last beat, and the window of the last ended job, where nothing else of the record
-- is needed; nil: it must be read as a whole.
function Shard.last_times()
  local text = call('GET', K.meta())
  if not text or #text < PACKED or text:sub(-9) ~= ' format=2' then return nil end
  return struct.unpack('<d', text), match(text, '^%S+ %S+ %S+ (%d+)', PACKED + 1)
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
  return above - above % SHARDS_MOST + SHARDS_MOST + match(P, ':(%d+)}:$')
end

function Shard.next_fence()
  local meta = S.meta or Shard.load()
  meta.fence = Shard.fence_after(meta.fence)
  return int(meta.fence)
end

function Shard.save()
  if not S.meta and offset == 0 then return end
  local meta = Shard.load()
  local text = struct.pack(META, meta.beat, offset, meta.fence, meta.arrival, meta.watched,
    meta.due) .. meta.gaps .. ' ' .. meta.watcher .. ' ' .. meta.drain .. ' ' .. meta.window
    .. meta.spread .. 'format=2'
  if text == meta_text then return end
  call('SET', K.meta(), text)
  if offset > 0 then call('HDEL', K.tasks(), '#plain') end -- see publish.lua
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

-- The last windows in which a job ended, and in which a group was let in.
function Shard.last_windows()
  local ended, groups = match(Shard.load().window, '^(%d+)/?(%d*)$')
  return tonumber(ended), tonumber(groups) or 0
end

function Shard.set_last_windows(ended, groups)
  Shard.load().window = int(ended) .. (groups > 0 and '/' .. int(groups) or '')
end

-- Sets of a kind rotate, and only the last two are in use. This gives the windows of those that are
-- there and no longer in use. They go by UNLINK and not by a time to live: one may be so large that
-- to free it in the foreground would stop Redis.
function Shard.outdated(last, window)
  local found = {}
  for w = max(1, last - 1), last do
    if w < window - 1 then insert(found, int(w)) end
  end
  return found
end

function Shard.drop_ended()
  local last, groups = Shard.last_windows()
  local windows = Shard.outdated(last, tonumber(Shard.window(0, now)))
  for _, window in ipairs(windows) do call('UNLINK', K.ended(window)) end
  if #windows == 2 then Shard.set_last_windows(0, groups) end
end

-- Two sets that rotate hold the ids of ended jobs, so that a repeated publish is not a new job.
function Shard.window(ago, at)
  return int((at - at % WINDOW_SECONDS) / WINDOW_SECONDS - ago)
end

-- The window of now; the last one, where the clock went back since the last beat.
function Shard.ended_window()
  if not S.this_window then
    local window = Shard.window(0, now)
    S.window_is_noted = Shard.load().window == window
    S.this_window = S.window_is_noted and window
      or int(max(tonumber(window), (Shard.last_windows())))
  end
  return S.this_window
end

function Shard.has_ended(id, window)
  window = window or Shard.ended_window()
  return call('SISMEMBER', K.ended(window), id) == 1
    or call('SISMEMBER', K.ended(int(window - 1)), id) == 1
end

function Shard.remember_ended(...)
  local window = Shard.ended_window()
  call('SADD', K.ended(window), ...)
  if S.window_is_noted then return end
  S.window_is_noted = true
  local last, groups = Shard.last_windows()
  window = tonumber(window)
  if last == window then return end
  Shard.drop_ended()
  Shard.set_last_windows(window, groups)
end

-- Sets that are no longer in use go.
function Shard.drop_windows()
  if S.meta.window == Shard.window(0, now) then return end
  Shard.drop_ended()
  Shard.drop_groups()
end

-- Groups that were let in while a capacity was set, by the hour.
function Shard.group_window()
  local _, last = Shard.last_windows()
  return max((now - now % GROUP_WINDOW_SECONDS) / GROUP_WINDOW_SECONDS, last)
end

function Shard.drop_groups()
  local ended, last = Shard.last_windows()
  if last == 0 then return end
  local windows = Shard.outdated(last, Shard.group_window())
  for _, window in ipairs(windows) do call('UNLINK', K.groups(window)) end
  if #windows == 2 then Shard.set_last_windows(ended, 0) end
end

-- Whether a workspace moves, to this shard or away from it, or has moved: see moves.lua.
function Shard.has_moved(name)
  return find(call('HGET', K.moved(), name) or '', '^[^|]') ~= nil
end

function Shard.refuse_moved(name)
  if Shard.has_moved(name) then error('MOVES ' .. name, 0) end
end

-- The number of this shard; nil: there is only this one.
function Shard.here()
  return match(P, ':(%d+)}:$')
end

-- One more of a name in a hash of counts: how many there were, and when the last was.
function Shard.count(key, name)
  local n = match(call('HGET', key, name) or '0', '^%d+')
  call('HSET', key, name, int(n + 1) .. ' ' .. now_text)
end

-- Count events that no process sees, since the store began. The number is for people: a count
-- that fails stops nothing.
function Shard.count_in_all(what, n)
  pcall(call, 'HINCRBY', K.notes(), what, n)
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
