-- A page of a queue's jobs, waiting or running, whose message holds a text; or one of some words behind it.
-- ARGV now queue cursor count text words
-- RETURNS {cursor, id, ...}
local _, queue, cursor, count, text, words = unpack(ARGV)

local wanted
if words ~= '' then
  wanted = {}
  for word in gmatch(words, '[^\n]+') do wanted[word] = true end
end

local following_cursor, fields = unpack(call('HSCAN', K.jobs(queue), cursor, 'COUNT', count))
local found = { following_cursor }
for i = 1, #fields, 2 do
  local _, head_end = string.find(fields[i + 1], '\n', 1, true)
  local _, at = string.find(fields[i + 1], text, head_end + 1, true)
  if at and (not wanted or wanted[match(fields[i + 1], '^[^"]*', at + 1)]) then insert(found, fields[i]) end
end
return found
