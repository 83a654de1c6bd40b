-- What the workers of a day have declared.
-- ARGV now
-- ROUTE all MERGE concat
-- RETURNS {digest, text, ...}: see declare_tasks.lua
-- WRITES nothing
return call('HGETALL', K.app_tasks())
