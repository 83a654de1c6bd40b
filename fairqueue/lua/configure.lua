-- Store a process's configured limits where none are stored, or always if it has the authority.
-- KEYS meta
-- ARGV now authoritative fields
-- RETURNS 1 if what is stored now is what was brought, else 0
local _, authoritative, fields = unpack(ARGV)

local brought, stored, same, any = {}, {}, true, false
for field, text in gmatch(fields, '(%S+) ([^\n]*)\n') do brought[field] = text end
local all = call('HGETALL', K.limits())
for i = 1, #all, 2 do
  if match(all[i], '^boot:') then
    stored[all[i]], any = all[i + 1], true
    same = same and brought[all[i]] == all[i + 1]
  end
end
for field in pairs(brought) do same = same and stored[field] ~= nil end
if same then return 1 end
if any and authoritative ~= '1' then return 0 end

for field in pairs(stored) do call('HDEL', K.limits(), field) end
for field, text in pairs(brought) do call('HSET', K.limits(), field, text) end
Meta.load().drain = '0'
Wake.touch_all()
Wake.all()
Save.all()
return 1
