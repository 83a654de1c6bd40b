-- Note that an owner of leases lives, or stops: its node, software, and what it takes jobs from.
-- ARGV now owner about takes declares
-- ROUTE all MERGE told
-- RETURNS 1; 0: what this digest stands for is not known here, see declare_tasks.lua
-- takes: "lease limits slots more queue queue ...": the length of its leases, 0: it has stopped; a
-- digest of its own limits, or -, and behind a / one of what it declares; how many jobs it can run
-- at once, or -; and the queues from which it takes jobs, without `more` others, or - if they are
-- not known
local _, owner, about, takes, declares = unpack(ARGV)
local KEPT_SECONDS, FORGOTTEN_AT_ONCE = 86400, 16 -- since the last sign of life

local gone = {}
local old =
  call('ZRANGEBYSCORE', K.workers(), '-inf', num(now - KEPT_SECONDS), 'LIMIT', 0, FORGOTTEN_AT_ONCE)
for _, text in ipairs(old) do insert(gone, match(text, '^%S+')) end
if #old > 0 then
  call('ZREM', K.workers(), unpack(old))
  call('HDEL', K.worker_queues(), unpack(gone))
end
call('ZADD', K.workers(), now_text, owner .. ' ' .. about)
call('HSET', K.worker_queues(), owner, takes)
return declares == '' and 1 or call('HEXISTS', K.app_tasks(), declares)
