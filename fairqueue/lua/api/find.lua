-- A page of a queue's jobs, waiting or running, by a text in the message and the word behind it.
-- ARGV now queue cursor count text words
-- ROUTE all MERGE concat
-- RETURNS {cursor, id, ...}
-- WRITES nothing
local _, queue, cursor, count, text, words = unpack(ARGV)

local wanted
if words ~= '' then
  wanted = {}
  for word in gmatch(words, '[^\n]+') do wanted[word] = true end
end

local following_cursor, jobs = Jobs.page(K.jobs(queue), cursor, count)
local found = { following_cursor }
for i = 1, #jobs, 2 do
  local record = jobs[i + 1]
  local _, at = find(record, text, Jobs.payload_start(record), true)
  if at and (not wanted or wanted[match(record, '^[^"]*', at + 1)]) then insert(found, jobs[i]) end
end
return found
