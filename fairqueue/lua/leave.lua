-- For so long nothing is taken over from other systems' lists; 0 ends that.
-- ARGV now seconds
-- RETURNS 1
local _, seconds = unpack(ARGV)

if tonumber(seconds) > 0 then
  call('SET', K.leaving(), 1, 'PX', format('%.0f', seconds * 1000))
else
  call('DEL', K.leaving())
end
return 1
