-- A page of the last jobs that have ended, the newest first.
-- ARGV now start count
-- ROUTE first
-- RETURNS one JSON text for each
-- WRITES nothing
local _, start, count = unpack(ARGV)

return call('LRANGE', K.finished_jobs(), start, start + count - 1)
