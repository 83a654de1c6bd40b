-- Add jobs that have ended to the last ones; the oldest go.
-- ARGV now jobs count
-- ROUTE first
-- RETURNS 1
-- jobs: one in a line, as JSON
local _, jobs, count = unpack(ARGV)
local MOST_DROPPED = 200 -- where fewer are kept than before, the next calls drop more

for line in gmatch(jobs, '[^\n]+') do call('LPUSH', K.finished_jobs(), line) end
for _ = 1, min(MOST_DROPPED, call('LLEN', K.finished_jobs()) - count) do
  call('RPOP', K.finished_jobs())
end
return 1
