-- A page of the unique keys that jobs of a workspace have left behind and that still count.
-- ARGV now workspace cursor count
-- RETURNS {cursor, keys}; of each key task queue id until key, in a line
-- WRITES nothing
local _, name, cursor, count = unpack(ARGV)

local following_cursor, found =
  unpack(call('HSCAN', K.unique(), cursor, 'MATCH', name .. ':*', 'COUNT', count))
local keys = {}
for i = 1, #found, 2 do
  local of, task, key = match(found[i], '^([^:]*):([^:]+):([^:]+)$')
  local queue, id, until_then = match(found[i + 1], '^(%S+) (%S+) ([%d.]+)$')
  if of == name and until_then and tonumber(until_then) > now then
    insert(keys, concat({ task, queue, id, until_then, key }, ' '))
  end
end
return { following_cursor, concat(keys, '\n') }
