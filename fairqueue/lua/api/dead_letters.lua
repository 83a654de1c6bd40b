-- A page of a workspace's dead letters, oldest first, or the one of this id.
-- ARGV now workspace id start count
-- ROUTE workspace
-- RETURNS {id, letter, ...}
local _, name, id, start, count = unpack(ARGV)

DeadLetters.expire(name)
local ids = id ~= '' and DeadLetters.named(name, id)
  or call('ZRANGE', K.dead_letters_by_age(name), start, start + count - 1)
local found = {}
for _, one in ipairs(ids) do
  local letter = DeadLetters.read(name, one)
  if letter then
    insert(found, one)
    insert(found, letter)
  end
end
return found
