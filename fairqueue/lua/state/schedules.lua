-- Schedules: the record of each, and an index of when a worker looks at each next.
--   schedules: name -> runner next extra last outcome paused delay boot seen\ndefinition
--     runner: which workers publish its ticks; next: its next tick, - until a worker has computed
--     it from now; extra: the time of a trigger, or -; last: the last tick that was published or
--     skipped; outcome: what became of the last one, and behind a / how many were missed before it;
--     delay: seconds from a tick to its publish; boot: when the newest process that declares it
--     began, - if it was put by a call; seen: when one declared it last
--   schedule_times: "runner workspace name" by when a worker looks at it next; inf: it is paused
--   tick, of a publish: name|expected|at|following|missed; expected: the schedule's next, or its
--     extra; at: the tick that is published, - for none; following: what next becomes, or end
local FIELDS = { 'runner', 'next', 'extra', 'last', 'outcome', 'paused', 'delay', 'boot', 'seen' }
local TICK = '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|(%d+)$'
local PAGE = 100
local PASSED_MOST = 1000 -- due ones of other runners that one call passes
local HELD_SECONDS = 3 -- for a worker that publishes a tick; then another one does
local FULL_SECONDS = 5 -- until a tick that a capacity has refused is published again
local UNDECLARED_SECONDS = 20 -- a process declares its schedules each 10 s
local DOUBT_SECONDS = 11 -- for processes that could not, since they or the server stood still
local AHEAD_SECONDS = 1
local NONE_SECONDS = 5 -- until a process looks again where there is no schedule at all

function Schedules.is_time(text)
  return text == '-' or tonumber(text)
end

-- One that cannot be read is set aside.
function Schedules.read(workspace, name)
  local text = call('HGET', K.schedules(workspace), name)
  if not text then return nil end
  local head, definition = match(text, '^([^\n]*)\n(.*)$')
  local r, n = { workspace = workspace, name = name, definition = definition }, 0
  for word in gmatch(head or '', '%S+') do
    n = n + 1
    r[FIELDS[n] or ''] = word
  end
  local can_be_read = n == #FIELDS and tonumber(r.delay) and tonumber(r.seen)
    and Schedules.is_time(r.next) and Schedules.is_time(r.extra) and Schedules.is_time(r.boot)
  if can_be_read then return r end
  Shard.set_aside('schedule', workspace .. ' ' .. name, text)
  call('HDEL', K.schedules(workspace), name)
end

function Schedules.member(r)
  return concat({ r.runner, r.workspace, r.name }, ' ')
end

function Schedules.write(r)
  local words = {}
  for i, field in ipairs(FIELDS) do words[i] = r[field] end
  call('HSET', K.schedules(r.workspace), r.name, concat(words, ' ') .. '\n' .. r.definition)
end

function Schedules.due_at(r)
  if r.extra ~= '-' then return tonumber(r.extra) end
  if r.paused == '1' then return math.huge end
  return r.next == '-' and now or r.next + r.delay
end

-- Let a worker look at it when it is due, or whether it is still declared.
function Schedules.place(r)
  local at = Schedules.due_at(r)
  if r.boot ~= '-' then at = min(at, now + UNDECLARED_SECONDS) end
  call('ZADD', K.schedule_times(), num(at), Schedules.member(r))
end

function Schedules.save(r)
  Schedules.write(r)
  Schedules.place(r)
end

-- No worker looks at it until then: one publishes its tick.
function Schedules.hold(r, seconds)
  call('ZADD', K.schedule_times(), num(now + (seconds or HELD_SECONDS)), Schedules.member(r))
end

function Schedules.drop(r)
  call('HDEL', K.schedules(r.workspace), r.name)
  call('ZREM', K.schedule_times(), Schedules.member(r))
end

function Schedules.is_undeclared(r)
  return r.boot ~= '-' and now - r.seen > UNDECLARED_SECONDS
end

-- The schedule of an entry of the index; nil: there is none, or no process declares it any more.
function Schedules.listed(member)
  local _, workspace, name = unpack(Schedules.names(member))
  local r = name and Schedules.read(workspace, name)
  if not r or Schedules.member(r) ~= member then call('ZREM', K.schedule_times(), member)
  elseif not Schedules.is_undeclared(r) then return r
  elseif r.seen == '0' then Schedules.drop(r)
  else
    r.seen = '0'
    Schedules.write(r)
    Schedules.hold(r, DOUBT_SECONDS)
  end
end

function Schedules.names(member)
  return { match(member, '^(%S+) (%S+) (%S+)$') }
end

-- Up to n due entries of these runners; in how many seconds to look again; and the place in the
-- index at which to go on at once, since all before it are of other runners, or 0.
function Schedules.due(runners, n, start)
  local found, from, some = {}, start
  repeat
    some = call('ZRANGEBYSCORE', K.schedule_times(), '-inf', num(now + AHEAD_SECONDS),
      'WITHSCORES', 'LIMIT', int(from), PAGE)
    for i = 1, #some, 2 do
      local at = tonumber(some[i + 1])
      if #found == n then return found, 0, 0 end
      if find(runners, ' ' .. match(some[i], '^%S*') .. ' ', 1, true) then
        if at > now then return found, at - now, 0 end
        insert(found, some[i])
      end
    end
    if #some < 2 * PAGE then
      local has_any = from > 0 or #some > 0 or call('EXISTS', K.schedule_times()) == 1
      return found, has_any and AHEAD_SECONDS or NONE_SECONDS, 0
    end
    from = from + PAGE
  until from >= start + PASSED_MOST
  return found, 0, #found == 0 and from or 0
end

-- The schedule that expects this tick; nil: it was published before, or the schedule has changed.
function Schedules.expecting(workspace, tick)
  local name, expected, at, following, missed = match(tick, TICK)
  local r = Schedules.read(workspace, name)
  if not r then return nil end
  r.is_extra = expected ~= '-' and r.extra == expected
  if not r.is_extra and (r.next ~= expected or r.paused == '1') then return nil end
  r.at, r.following, r.missed = at, following, missed
  return r
end

-- This tick is done with: the following one is next, or the schedule has ended.
function Schedules.advance(r, outcome)
  if r.is_extra then r.extra = '-' else r.next = r.following end
  if r.at ~= '-' then
    r.last = r.at
    Shard.count_in_all('ticks_' .. outcome, 1)
  end
  if r.missed ~= '0' then
    Shard.count_in_all('ticks_missed', r.missed)
    outcome = outcome .. '/' .. r.missed
  end
  r.outcome = outcome
  if r.next == 'end' and r.extra ~= '-' then r.next = '-' end -- it was triggered meanwhile
  if r.next == 'end' then Schedules.drop(r) else Schedules.save(r) end
end

-- A capacity has refused its job: the tick is tried again until the following one is due.
function Schedules.refused(r)
  if r.outcome ~= 'full' then Shard.count_in_all('ticks_full', 1) end
  r.outcome = 'full'
  Schedules.write(r)
  Schedules.hold(r, FULL_SECONDS)
end
