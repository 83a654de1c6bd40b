-- How many messages were taken over from other systems' lists, by kind.
-- ARGV now
-- RETURNS kind, count, ...
return call('HGETALL', K.taken())
