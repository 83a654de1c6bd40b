-- A page of the dead letters of a workspace that match, oldest first.
-- ARGV now workspace id queue task reason text error since until_then payloads skip count
-- ROUTE workspace MERGE own
-- RETURNS {looked_at, id, letter, ...}: nothing is left where fewer were looked at than asked for
-- letter: with its payload if that has at most `payloads` bytes
-- WRITES nothing
local _, name, id, queue, task, reason, text, error, since, until_then, payloads, skip,
  count = unpack(ARGV)
local oldest, keeps = tonumber(since), DeadLetters.retention().seconds
if keeps then oldest = max(oldest, now - keeps) end

local function matches(letter)
  local _, why = DeadLetters.death_of(letter)
  local record = DeadLetters.record_of(letter)
  local _, of = Jobs.identity_of(record)
  return (queue == '' or DeadLetters.queue_of(letter) == queue) and (task == '' or of == task)
    and (reason == '' or why == reason)
    and (error == '' or find(match(letter, '^%S+ %S+ ([^\n]*)'), error, 1, true))
    and (text == '' or find(record, text, Jobs.payload_start(record), true))
end

local by_age = K.dead_letters_by_age(name)
local ids = id ~= '' and DeadLetters.named(name, id)
  or call('ZRANGEBYSCORE', by_age, num(oldest), until_then, 'LIMIT', skip, count)
local found = { #ids }
for _, one in ipairs(ids) do
  local letter = DeadLetters.read(name, one)
  if letter and DeadLetters.record_of(letter) and matches(letter) then
    insert(found, one)
    insert(found, match(letter, '^[^\n]*\n[^\n]*\n')
      .. Jobs.small_payload(DeadLetters.record_of(letter), payloads))
  end
end
return found
