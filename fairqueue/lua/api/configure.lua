-- Store a process's configured limits where none are stored, or always if it is authoritative.
-- One that names no limit replaces those that are stored only if it erases.
-- ARGV now authoritative erases digest fields retention by
-- ROUTE all MERGE own
-- RETURNS {1 if the stored limits are now those of this process, else 0; 1 if answers of a limit
-- provider are left that no process has any more, else 0; how many stored limits were replaced;
-- and of some of these {field, text, text before, "time process" of that}}; or {-2, task...}: the
-- leases of these tasks must be indexed before
local _, authoritative, erases, digest, fields, retention, by = unpack(ARGV)
local SHOWN = 20 -- of the limits that were replaced
S.stored_by = by

local may_erase = digest ~= '' or erases == '1'
if authoritative == '1' and retention == '' and may_erase then
  call('HDEL', K.shard(), 'retention')
end
if retention ~= '' then
  call(authoritative == '1' and 'HSET' or 'HSETNX', K.shard(), 'retention', retention)
end

local function ours()
  local provided = call('HEXISTS', K.limits(), 'configured:provider:') == 1
  return { 1, not provided and call('EXISTS', K.asked()) or 0, 0 }
end
local known = match(call('HGET', K.limits(), 'configured') or '', '^%x*')
if known == digest then return ours() end
local is_kept = authoritative ~= '1' or not may_erase
if known ~= '' and is_kept then return { 0, 0, 0 } end

local configured, stored, tasks = {}, {}, {}
for _, field in ipairs(call('SMEMBERS', K.limits_with('configured'))) do
  stored[field] = call('HGET', K.limits(), field) or ''
end
for field, text in gmatch(fields, '(%S+) ([^\n]*)\n') do
  local task = match(field, '^configured:task:(.*)$')
  if task then
    Tasks.name(task)
    insert(tasks, task)
  end
  configured[field] = text
end
local missing = SharedLimits.not_indexed(tasks)
if #missing > 0 then return { -2, unpack(missing) } end
-- Also a reserve that goes: it still stands in an index. A workspace that has lost its reserve
-- stays there until it is settled: an earlier change may still be under way.
local had_reserve = call('EXISTS', K.limits_with('reserves')) == 1
local under_way = Shard.load().drain ~= '-' and call('HEXISTS', K.limits(), 'reserves') == 1

local replaced = {}
local function note_replaced(field)
  local at = call('HGET', K.stored_by(), field) or ''
  insert(replaced, { field, configured[field] or '', stored[field] or '', at })
end
for field in pairs(stored) do
  if not configured[field] then
    note_replaced(field)
    Limits.put(field, '')
  end
end
for field, text in pairs(configured) do
  if stored[field] ~= text then
    if next(stored) then note_replaced(field) end
    Limits.put(field, text)
  end
end
if configured['configured:observe:'] ~= stored['configured:observe:'] then
  local counts = call('HGETALL', K.counts())
  call('UNLINK', K.counts())
  for i = 2, #counts, 2 do
    local lost = match(counts[i], 'lost=%d+')
    if lost then call('HSET', K.counts(), counts[i - 1], lost .. match(counts[i], ' %S+$')) end
  end
end
-- Kept for good, also where limits go: a store without it has lost them.
call('HSET', K.limits(), 'configured', digest ~= '' and digest or '-')
if not (had_reserve or under_way or call('EXISTS', K.limits_with('reserves')) == 1) then
  Limits.forget()
  call('HDEL', K.limits(), 'reserves')
end

Shard.load().drain = '0'
Wakeups.touch_all()
table.sort(replaced, function(one, other) return one[1] < other[1] end)
local reply = ours()
reply[3] = #replaced
for i = 1, min(SHOWN, #replaced) do insert(reply, replaced[i]) end
return reply
