-- Take up to n schedules that are due, for a few seconds, to publish their ticks.
-- ARGV now runners n start
-- RETURNS {now, seconds, start, entry, record, ...}: in how many seconds to look again, or with
-- which start to go on at once
-- runners: those of the caller, with spaces around each
-- start: 0, or what an earlier call has returned
local _, runners, n, start = unpack(ARGV)
local found, seconds, from = Schedules.due(runners, tonumber(n), tonumber(start))
local reply = { now_text, num(seconds), from }
if #found == 0 then return reply end
local moves = call('HEXISTS', K.limits(), 'moves') == 1
for _, member in ipairs(found) do
  local r = Schedules.listed(member)
  if r and Schedules.due_at(r) > now then
    Schedules.place(r)
  elseif r then
    Schedules.hold(r)
    if not (moves and Shard.has_moved(r.workspace)) then
      insert(reply, member)
      insert(reply, call('HGET', K.schedules(r.workspace), r.name))
    end
  end
end
return reply
