-- Note that an owner of leases lives, with its node's name and its software.
-- ARGV now owner about
-- RETURNS 1
local _, owner, about = unpack(ARGV)
local KEPT_SECONDS, FORGOTTEN_AT_ONCE = 86400, 16 -- since the last sign of life

local old =
  call('ZRANGEBYSCORE', K.workers(), '-inf', num(now - KEPT_SECONDS), 'LIMIT', 0, FORGOTTEN_AT_ONCE)
Shard.write_when_full()
if #old > 0 then call('ZREM', K.workers(), unpack(old)) end
call('ZADD', K.workers(), now_text, owner .. ' ' .. about)
return 1
