-- How many jobs run under limits wider than a shard, at their home, and how many more may start.
-- ARGV now limits
-- RETURNS "used room" of each; room: - where there is no such limit
-- WRITES nothing
local _, limits = unpack(ARGV)
local counts = {}
for limit in gmatch(limits, '%S+') do
  local p = Permits.of(limit)
  local used = call('ZCOUNT', p.key, '(' .. now_text, '+inf')
  local room = Permits.room(p, used)
  insert(counts, used .. ' ' .. (room < math.huge and num(room) or '-'))
end
return counts
