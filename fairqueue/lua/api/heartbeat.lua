-- Note that an owner of leases lives, or stops: its node, software, and what it takes jobs from.
-- ARGV now owner about digest app
-- ROUTE all MERGE told
-- RETURNS 1; 0: what its app declares is not known here, and is told with another call
-- about: "node software lease limits/digest slots more queue queue ...": the length of its leases,
-- 0: it has stopped; a digest of its own limits, or -, and one of what it declares; how many jobs
-- it can run at once, or -; and the queues from which it takes jobs, without `more` others, or - if
-- they are not known
-- app: "app\ntask task ...", * for more tasks than are told; or empty
local _, owner, about, digest, app = unpack(ARGV)

call('HSET', K.workers(), owner, now_text .. ' ' .. about)
if app ~= '' then call('HSET', K.workers(), '#' .. digest, app) end
return digest == '' and 1 or call('HEXISTS', K.workers(), '#' .. digest)
