-- A page of the dead letters of some workspaces that match, of each the oldest first.
-- ARGV now workspaces id queue task reason text error since until_then payloads skip count
-- ROUTE all MERGE own
-- RETURNS {workspaces of which none is left, letters of the next that were looked at,
-- id, letter, ...}
-- letter: with its payload if that has at most `payloads` bytes
-- WRITES nothing
local _, workspaces, id, queue, task, reason, text, error, since, until_then, payloads, skip,
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

local found, done, left = { 0, 0 }, 0, tonumber(count)

local function add(name, ids)
  for _, one in ipairs(ids) do
    local letter = DeadLetters.read(name, one)
    if letter and DeadLetters.record_of(letter) and matches(letter) then
      insert(found, one)
      insert(found, match(letter, '^[^\n]*\n[^\n]*\n')
        .. Jobs.small_payload(DeadLetters.record_of(letter), payloads))
    end
  end
end

for name in gmatch(workspaces, '%S+') do
  if id ~= '' then
    add(name, DeadLetters.named(name, id))
  else
    local ids = call('ZRANGEBYSCORE', K.dead_letters_by_age(name), num(oldest), until_then,
      'LIMIT', skip, left)
    add(name, ids)
    left = left - #ids
    if left == 0 then
      found[2] = skip + #ids
      break
    end
  end
  done, skip = done + 1, 0
end
found[1] = done
return found
