-- Store a process's configured limits where none are stored, or always if it has the authority.
-- ARGV now authoritative fields
-- RETURNS 1 if what is stored now is what was brought, else 0
local _, authoritative, fields = unpack(ARGV)

local brought, stored, live_capacity = {}, {}, false
for field, text in gmatch(fields, '(%S+) ([^\n]*)\n') do brought[field] = text end
local all = call('HGETALL', K.limits())
for i = 1, #all, 2 do
  if match(all[i], '^boot:') then stored[all[i]] = all[i + 1] end
  live_capacity = live_capacity or match(all[i], '^live:') and match(all[i + 1], 'capacity=')
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
for field, text in pairs(brought) do call('HSET', K.limits(), field, text) end
if live_capacity or match(fields, 'capacity=') then
  call('HSET', K.limits(), 'capacity', 1)
else
  call('HDEL', K.limits(), 'capacity')
end
Meta.load().drain = '0'
Wake.touch_all()
Wake.all()
Save.all()
return 1
