-- One page of the schedules: all, the next one first, or those of a workspace, or one by name.
-- ARGV now workspace schedule cursor count
-- ROUTE workspace MERGE concat
-- RETURNS {cursor, now, entry, record, ...}
-- WRITES nothing
local _, workspace, name, cursor, count = unpack(ARGV)
local rows = { '0', now_text }

local function add(of, schedule, text)
  if not text then return end
  insert(rows, concat({ match(text, '^%S*'), of, schedule }, ' '))
  insert(rows, text)
end

if name ~= '' then
  add(workspace, name, call('HGET', K.schedules(workspace), name))
elseif workspace ~= '' then
  local following_cursor, found =
    unpack(call('HSCAN', K.schedules(workspace), cursor, 'COUNT', count))
  rows[1] = following_cursor
  for i = 1, #found, 2 do add(workspace, found[i], found[i + 1]) end
else
  local last = cursor + count - 1
  local found = call('ZRANGE', K.schedule_times(), cursor, int(last))
  for _, member in ipairs(found) do
    local _, of, schedule = unpack(Schedules.names(member))
    if schedule then add(of, schedule, call('HGET', K.schedules(of), schedule)) end
  end
  if #found == tonumber(count) then rows[1] = int(last + 1) end
end
return rows
