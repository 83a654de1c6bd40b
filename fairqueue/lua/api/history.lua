-- The short history: samples of what ran and waited.
-- ARGV now
-- ROUTE first
-- RETURNS the samples, one in a line, the newest first
-- WRITES nothing
return call('GET', K.history()) or ''
