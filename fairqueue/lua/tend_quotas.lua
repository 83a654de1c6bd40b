-- Let one process at a time move quotas, while there are limits wider than a shard.
-- ARGV now owner seconds
-- RETURNS {1 if it is this one's task now, else 0; for how many seconds nothing changes about that}
local _, owner, seconds = unpack(ARGV)
if call('EXISTS', K.limits_with('whole')) == 0 then return { 0, num(tonumber(seconds)) } end
local other, until_then = match(call('HGET', K.quota_ledger(), '') or '', '^(%S+) (%S+)$')
local left = other and other ~= owner and tonumber(until_then) - now or 0
if left > 0 then return { 0, num(left) } end
Shard.write_when_full()
call('HSET', K.quota_ledger(), '', owner .. ' ' .. num(now + seconds))
return { 1, num(tonumber(seconds)) }
