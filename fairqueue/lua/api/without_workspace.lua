-- How many jobs named no workspace, by task, and when the last of them was published.
-- ARGV now
-- ROUTE all MERGE sum
-- RETURNS task, "jobs last", ...
-- WRITES nothing
return Shard.counts(K.shard(), '^unnamed:(.*)$')
