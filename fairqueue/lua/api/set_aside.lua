-- How many records, by kind, were passed because they could not be read.
-- ARGV now
-- ROUTE all MERGE sum
-- RETURNS kind, number, ...
-- WRITES nothing
local counts = {}
for _, field in ipairs(call('HKEYS', K.set_aside())) do
  local kind = match(field, '^#(.*)$')
  if kind then
    insert(counts, kind)
    insert(counts, call('HGET', K.set_aside(), field))
  end
end
return counts
