-- How many records, by kind, were passed because they could not be read.
-- ARGV now
-- ROUTE all MERGE sum
-- RETURNS kind, number, ...
-- WRITES nothing
return Shard.counts(K.set_aside(), '^#(.*)$')
