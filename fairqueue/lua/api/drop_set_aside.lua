-- Forget what was set aside because it could not be read.
-- ARGV now
-- ROUTE all MERGE sum
-- RETURNS how many records were kept
local n = 0
for _, field in ipairs(call('HKEYS', K.set_aside())) do
  if not match(field, '^#') then n = n + 1 end
end
call('UNLINK', K.set_aside())
return n
