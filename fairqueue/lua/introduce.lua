-- Note that an owner of leases lives: its node's name, its software, and what it takes jobs from.
-- ARGV now owner about takes
-- RETURNS 1
-- takes: "slots more queue queue ...": how many jobs it can run at once, or -, and the queues from
-- which it takes jobs, without `more` others; '': not known
local _, owner, about, takes = unpack(ARGV)
local KEPT_SECONDS, FORGOTTEN_AT_ONCE = 86400, 16 -- since the last sign of life

local gone = {}
if takes == '' then insert(gone, owner) end
local old =
  call('ZRANGEBYSCORE', K.workers(), '-inf', num(now - KEPT_SECONDS), 'LIMIT', 0, FORGOTTEN_AT_ONCE)
for _, text in ipairs(old) do insert(gone, match(text, '^%S+')) end
Shard.write_when_full()
if #old > 0 then call('ZREM', K.workers(), unpack(old)) end
if #gone > 0 then call('HDEL', K.worker_queues(), unpack(gone)) end
call('ZADD', K.workers(), now_text, owner .. ' ' .. about)
if takes ~= '' then call('HSET', K.worker_queues(), owner, takes) end
return 1
