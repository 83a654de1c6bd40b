-- Let one process at a time move quotas, while there are limits wider than a shard.
-- ARGV now owner seconds moved needed
-- RETURNS {1 if it is this one's task now, 0 if it is another's, -1 if there is no such limit here;
-- for how many seconds nothing changes about that}
-- moved: 1 if it has moved them since it last asked. needed: 1 if another shard has such a limit,
-- or has missed one. A tenure that would last for longer than any
-- does is not believed: the clock went back.
local LONGEST_SECONDS = 60
local _, owner, seconds, moved, needed = unpack(ARGV)
if needed ~= '1' and call('EXISTS', K.limits_with('whole'), K.limits_with('missed')) == 0 then
  return { -1, num(tonumber(seconds)) }
end
local other, until_then, moved_at =
  match(call('HGET', K.quota_ledger(), '') or '', '^(%S+) (%S+) ?(%S*)$')
local left = other and other ~= owner and tonumber(until_then) - now or 0
if left > 0 and left <= LONGEST_SECONDS then return { 0, num(left) } end
if moved == '1' or (moved_at or '') == '' then moved_at = now_text end
call('HSET', K.quota_ledger(), '', owner .. ' ' .. num(now + seconds) .. ' ' .. moved_at)
return { 1, num(tonumber(seconds)) }
