-- Pause, resume, trigger or remove a schedule, go on from a tick without a job, or note it failed.
-- ARGV now workspace schedule how tick
-- ROUTE workspace
-- RETURNS 1, or 0 where there is none, or it does not expect this tick
-- tick: with the last two of these, see state/schedules.lua
local _, workspace, name, how, tick = unpack(ARGV)

Shard.refuse_moved(workspace)
local r
if tick ~= '' then r = Schedules.expecting(workspace, tick)
else r = Schedules.read(workspace, name) end
if not r then return 0 end
if how == 'advance' then
  local known = r.at ~= '-' and 'published' or match(r.outcome, '^[^/]*')
  Schedules.advance(r, r.at == '-' and r.missed ~= '0' and 'missed' or known)
elseif how == 'fail' then
  r.outcome = 'failed'
  Schedules.write(r)
elseif how == 'remove' then
  Schedules.drop(r)
else
  if how == 'trigger' then r.extra = now_text end
  if how == 'pause' then r.paused = '1' end
  if how == 'resume' and r.paused == '1' then r.paused, r.next = '0', '-' end
  Schedules.save(r)
end
return 1
