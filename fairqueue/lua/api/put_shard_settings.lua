-- Store limits that concern all shards on one that is new.
-- ARGV now retention rows
-- RETURNS 1, or {-2, task...}: the leases of these tasks must be indexed before
-- rows: field, text and stamp in lines of three
local _, retention, rows = unpack(ARGV)

local read, tasks = {}, {}
for field, text, stamp in gmatch(rows, '([^\n]*)\n([^\n]*)\n([^\n]*)\n') do
  insert(tasks, match(field, '^%a+:task:(.*)$'))
  insert(read, { field = field, text = text, stamp = stamp })
end
local missing = SharedLimits.not_indexed(tasks)
if #missing > 0 then return { -2, unpack(missing) } end

if retention ~= '' then call('HSET', K.notes(), 'retention', retention) end
for _, row in ipairs(read) do
  Limits.put(row.field, row.text)
  if row.stamp ~= '' then call('HSET', K.stored_by(), row.field, row.stamp) end
end
for _, task in ipairs(tasks) do Settle.shared_limit('/' .. task) end
Shard.load().drain = '0'
Wakeups.touch_all()
return 1
