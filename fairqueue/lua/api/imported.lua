-- How many messages were imported from other systems' lists, by kind.
-- ARGV now
-- ROUTE all MERGE sum
-- RETURNS kind, count, ...
-- WRITES nothing
local found = {}
for _, field in ipairs(call('HKEYS', K.notes())) do
  local kind = match(field, '^imported (.*)$')
  if kind then
    insert(found, kind)
    insert(found, call('HGET', K.notes(), field))
  end
end
return found
