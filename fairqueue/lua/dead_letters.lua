-- A page of a workspace's dead letters, oldest first, or the one of this id.
-- ARGV now workspace id start count
-- ROUTE workspace
-- RETURNS {id, letter, ...}
local _, name, id, start, count = unpack(ARGV)

DeadLetters.expire(name)
local found = {}
for _, one in ipairs(DeadLetters.chosen(name, id, '+inf', start, count)) do
  local letter = DeadLetters.read(name, one)
  if letter then
    insert(found, one)
    insert(found, letter)
  end
end
return found
