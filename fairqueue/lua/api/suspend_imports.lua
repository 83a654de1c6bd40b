-- Import nothing from other systems' lists for some seconds; 0 ends that.
-- ARGV now seconds
-- ROUTE all MERGE told
-- FULL refused
-- RETURNS 1
local _, seconds = unpack(ARGV)

if tonumber(seconds) > 0 then
  call('SET', K.imports_suspended(), 1, 'PX', format('%.0f', seconds * 1000))
else
  call('DEL', K.imports_suspended())
end
return 1
