-- How many messages were imported from other systems' lists, by kind.
-- ARGV now
-- ROUTE all MERGE sum
-- RETURNS kind, count, ...
-- WRITES nothing
return Shard.counts(K.shard(), '^imported:(.*)$')
