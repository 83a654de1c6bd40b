-- Be the one process that moves workspaces, for some seconds; 0: no longer.
-- ARGV now owner seconds
-- RETURNS 1 it is this one, 0 another one does
local _, owner, seconds = unpack(ARGV)

local held = call('HGET', K.moved(), '') or ''
local other, ends = match(held, '^(%S+) (%S+)$')
if other and other ~= owner and tonumber(ends) > now then return 0 end
if tonumber(seconds) > 0 then
  call('HSET', K.moved(), '', owner .. ' ' .. num(now + seconds))
else
  call('HDEL', K.moved(), '')
end
return 1
