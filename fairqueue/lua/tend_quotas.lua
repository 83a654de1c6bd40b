-- Let one process at a time move quotas, while there are limits wider than a shard.
-- ARGV now owner seconds moved
-- RETURNS {1 if it is this one's task now, else 0; for how many seconds nothing changes about that}
-- moved: 1 if it has moved them since it last asked. A tenure that would last for longer than any
-- does is not believed: the clock went back.
local LONGEST_SECONDS = 60
local _, owner, seconds, moved = unpack(ARGV)
if call('EXISTS', K.limits_with('whole')) == 0 then return { 0, num(tonumber(seconds)) } end
local other, until_then, moved_at =
  match(call('HGET', K.quota_ledger(), '') or '', '^(%S+) (%S+) ?(%S*)$')
local left = other and other ~= owner and tonumber(until_then) - now or 0
if left > 0 and left <= LONGEST_SECONDS then return { 0, num(left) } end
Shard.write_when_full()
if moved == '1' or (moved_at or '') == '' then moved_at = now_text end
call('HSET', K.quota_ledger(), '', owner .. ' ' .. num(now + seconds) .. ' ' .. moved_at)
return { 1, num(tonumber(seconds)) }
