-- A page of a queue's jobs, waiting or running, whose message holds a text.
-- ARGV now queue cursor count text
-- RETURNS {cursor, id, ...}
local _, queue, cursor, count, text = unpack(ARGV)

local following_cursor, fields = unpack(call('HSCAN', K.jobs(queue), cursor, 'COUNT', count))
local found = { following_cursor }
for i = 1, #fields, 2 do
  local _, head_end = string.find(fields[i + 1], '\n', 1, true)
  if string.find(fields[i + 1], text, head_end + 1, true) then insert(found, fields[i]) end
end
return found
