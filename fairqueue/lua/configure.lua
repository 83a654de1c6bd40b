-- Store a process's configured limits where none are stored, or always if it has the authority.
-- ARGV now authoritative fields retention
-- RETURNS 1 if what is stored now is what was brought, else 0
local _, authoritative, fields, retention = unpack(ARGV)

if authoritative == '1' and retention == '' then call('DEL', K.retention()) end
if retention ~= '' and (authoritative == '1' or call('EXISTS', K.retention()) == 0) then
  call('SET', K.retention(), retention)
end

local brought, stored, live_capacity, any_reserve = {}, {}, false, match(fields, 'reserve=')
for field, text in gmatch(fields, '(%S+) ([^\n]*)\n') do
  local task = match(field, '^boot:task:(.*)$')
  brought[task and 'boot:task:' .. Tasks.number(task) or field] = text
end
local all = call('HGETALL', K.limits())
for i = 1, #all, 2 do
  if match(all[i], '^boot:') then stored[all[i]] = all[i + 1] end
  live_capacity = live_capacity or (match(all[i], '^live:') or match(all[i], '^given:')) and match(all[i + 1], 'capacity=')
    or match(all[i], '^pause:') and match(all[i + 1], 'draining=')
  any_reserve = any_reserve or match(all[i + 1], 'reserve=') -- also one that goes: it still stands in an index
end

local function differ()
  for field, text in pairs(brought) do
    if stored[field] ~= text then return true end
  end
  for field in pairs(stored) do
    if not brought[field] then return true end
  end
end

if not differ() then return 1 end
if next(stored) and authoritative ~= '1' then return 0 end

for field in pairs(stored) do call('HDEL', K.limits(), field) end
if not brought['boot:provider:'] then Given.forget() end
if brought['boot:observe:'] ~= stored['boot:observe:'] then call('DEL', K.observed()) end
for field, text in pairs(brought) do call('HSET', K.limits(), field, text) end
local function mark(name, is_so)
  if is_so then call('HSET', K.limits(), name, 1) else call('HDEL', K.limits(), name) end
end
mark('capacity', live_capacity or match(fields, 'capacity='))
-- Who has lost its reserve stands in an index until it is settled: an earlier change may still be under way.
local under_way = Meta.load().drain ~= '-' and call('HEXISTS', K.limits(), 'reserves') == 1
mark('reserves', any_reserve or under_way)
Caps.mark_tasks()
local changed, seen = {}, {}
for _, from in ipairs({ stored, brought }) do
  for field in pairs(from) do
    local task = match(field, '^boot:task:(.*)$')
    if task and not seen[task] then insert(changed, tonumber(task)) end
    if task then seen[task] = true end
  end
end
table.sort(changed)
for _, task in ipairs(changed) do Shared.change_task(int(task)) end
Meta.load().drain = '0'
Wake.touch_all()
Wake.all()
Save.all()
return 1
