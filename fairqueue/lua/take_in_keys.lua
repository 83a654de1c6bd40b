-- Store unique keys that jobs of a workspace have left behind which moves to this shard.
-- ARGV now workspace keys
-- FULL refused
-- RETURNS 1
local _, name, keys = unpack(ARGV)

for task, queue, id, until_then, key in gmatch(keys, '(%S+) (%S+) (%S+) (%S+) ([^\n]+)') do
  local field = concat({ name, task, key }, ':')
  if call('HEXISTS', K.unique(), field) == 0 then
    Moves.take_key({ name = name }, { task = task, key = ':' .. key, queue = queue, id = id,
      until_then = until_then })
  end
end
return 1
