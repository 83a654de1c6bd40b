-- Add a sample to the short history, unless the newest one is younger than the gap.
-- ARGV now sample gap count bytes lifetime
-- ROUTE first
-- FULL refused
-- RETURNS 1: it was added; 0: another process has sampled meanwhile
local _, sample, gap, count, bytes, lifetime = unpack(ARGV)

local kept = call('GET', K.history()) or ''
local newest = tonumber(match(kept, '^(%S+)'))
if newest and now - newest < tonumber(gap) then return 0 end
local lines = { now_text .. ' ' .. sample }
local length = #lines[1]
for line in gmatch(kept, '[^\n]+') do
  length = length + 1 + #line
  if #lines >= tonumber(count) or length > tonumber(bytes) then break end
  insert(lines, line)
end
call('SET', K.history(), concat(lines, '\n'), 'PX', lifetime)
return 1
