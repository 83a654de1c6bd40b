-- Store a schedule, unless it is there and is the same.
-- ARGV now workspace schedule runner next delay boot definition
-- ROUTE workspace
-- FULL refused
-- RETURNS {status, now}: 1 stored, 0 nothing to change, 2 its next tick is wanted, -1 the workspace
-- has too many; {-2, runner}: workers of another app declare it
-- definition: JSON, with when it is due at its end
-- next: empty in a first call; boot: when a process that declares it began, empty in its first
-- call; - if it is put by a call
local _, workspace, name, runner, next, delay, boot, definition = unpack(ARGV)
local MOST = 10000
local SEEN_SECONDS = 5 -- several processes that declare it write that once in so long

Shard.refuse_moved(workspace)
local r, is_declared = Schedules.read(workspace, name), boot ~= '-'
if boot == '' then boot = now_text end
local is_same = r and r.definition == definition and r.runner == runner
if is_same and (r.boot ~= '-') == is_declared then
  if is_declared and (now - r.seen > SEEN_SECONDS or tonumber(r.boot) < tonumber(boot)) then
    r.seen, r.boot = now_text, num(max(r.boot, boot))
    Schedules.save(r)
  end
  return { 0, now_text }
end
-- What a call has put stays, and so does what another app or a newer process declares, while it
-- lives.
if r and is_declared then
  if r.boot == '-' then return { 0, now_text } end
  local lives = not Schedules.is_undeclared(r)
  if lives and r.runner ~= runner then return { -2, r.runner } end
  if lives and tonumber(r.boot) > tonumber(boot) then return { 0, now_text } end
end
local when = '.*("when":.*)$'
if r and match(r.definition, when) == match(definition, when) then next = r.next end
if next == '' then return { 2, now_text } end
if not r and call('HLEN', K.schedules(workspace)) >= MOST then return { -1, now_text } end
if r then call('ZREM', K.schedule_times(), Schedules.member(r)) end
r = r or { workspace = workspace, name = name, extra = '-', last = '-', outcome = '-',
  paused = '0' }
r.runner, r.next, r.delay, r.boot, r.seen = runner, next, delay, boot, now_text
r.definition = definition
Schedules.save(r)
return { 1, now_text }
