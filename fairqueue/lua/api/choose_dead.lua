-- A page of the dead letters that match, by workspace, of each the oldest first.
-- ARGV now workspace id queue task reason text error since until_then payloads cursor count
-- ROUTE all MERGE own
-- RETURNS {cursor, place, id, letter, ...}; the cursor is empty where these were all
-- cursor, place: the time of the oldest letter of a workspace, the workspace, and the time and id
-- of the letter that was looked at
-- letter: with its payload if that has at most `payloads` bytes
-- WRITES nothing
local _, workspace, id, queue, task, reason, text, error, since, until_then, payloads, cursor,
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

local found, left = { '' }, tonumber(count)

-- The rank of a member that has this score; if it has not any more, of the first that has it.
local function rank_of(key, score, member)
  if score and call('ZSCORE', key, member) == score then return call('ZRANK', key, member), true end
  return score and call('ZCOUNT', key, '-inf', '(' .. score) or 0
end

local function ids_behind(name, died, last)
  local key = K.dead_letters_by_age(name)
  if id ~= '' then
    left = left - call('ZCARD', key)
    local ids = {}
    for _, one in ipairs(DeadLetters.named(name, id)) do
      if tonumber(call('ZSCORE', key, one) or 0) >= oldest then
        insert(ids, one)
        insert(ids, 'inf')
      end
    end
    return ids
  end
  local first, is_there = rank_of(key, died, last)
  first = max(is_there and first + 1 or first, call('ZCOUNT', key, '-inf', '(' .. num(oldest)))
  local ends = min(first + left, call('ZCOUNT', key, '-inf', until_then))
  local ids = ends > first and call('ZRANGE', key, first, ends - 1, 'WITHSCORES') or {}
  left = left - max(1, #ids / 2)
  return ids
end

-- Look at letters of a workspace behind this one; return how far.
local function look(name, at, died, last)
  local ids, place = ids_behind(name, died, last), concat({ at, name, 'inf -' }, ' ')
  for i = 1, #ids, 2 do
    local letter = DeadLetters.read(name, ids[i])
    place = concat({ at, name, ids[i + 1], ids[i] }, ' ')
    if letter and DeadLetters.record_of(letter) and matches(letter) then
      insert(found, place)
      insert(found, ids[i])
      insert(found, match(letter, '^[^\n]*\n[^\n]*\n')
        .. Jobs.small_payload(DeadLetters.record_of(letter), payloads))
    end
  end
  return place
end

local at, from, died, last = match(cursor, '^(%S+) (%S+) (%S+) (%S+)$')
local is_done = died == 'inf' -- the workspace of the cursor
local names = is_done and {} or { workspace, at or '0' }
if workspace == '' then
  local first, is_there = rank_of(K.dead_workspaces(), at, from)
  if is_there and is_done then first = first + 1 end
  names = call('ZRANGE', K.dead_workspaces(), first, first + count - 1, 'WITHSCORES')
end
for i = 1, #names, 2 do
  local name, its = names[i], names[i + 1]
  if find(name, '^!') or its == at and name < from then
    found[1] = concat({ its, name, 'inf -' }, ' ')
  elseif name == from then found[1] = look(name, its, died, last)
  else found[1] = look(name, its) end
  if left < 1 then return found end
end
if workspace ~= '' or #names < 2 * count then found[1] = '' end
return found
