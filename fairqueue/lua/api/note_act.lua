-- Add an operator's act to the last acts; the oldest go.
-- ARGV now act count bytes
-- ROUTE first
-- RETURNS 1
local _, act, count, bytes = unpack(ARGV)

local lines = { now_text .. ' ' .. act }
local length = #lines[1]
for line in gmatch(call('HGET', K.shard(), 'acts') or '', '[^\n]+') do
  length = length + 1 + #line
  if #lines >= tonumber(count) or length > tonumber(bytes) then break end
  insert(lines, line)
end
call('HSET', K.shard(), 'acts', concat(lines, '\n'))
return 1
