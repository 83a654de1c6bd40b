-- Grant shards more in the ledger, each only while all that is granted stays within the limit.
-- ARGV now shards changes
-- RETURNS "epoch tokens" of each: of a rate the tokens that come with it; "0 0": it is refused
-- changes: "limit shard quota whole" of each, one in a line. The limit is the whole that its caller
-- has seen, or what is stored here if that is less: it may not have come to this shard
local _, shards, changes = unpack(ARGV)

local function grant(limit, shard, quota, seen)
  local what, scope, name = Quotas.parse(limit)
  local own_name = Quotas.own_name(scope, name)
  local whole = min(seen, own_name and Limits.stored_whole(what, scope, own_name) or seen)
  local line = Quotas.line(limit, tonumber(shards))
  local each = line[shard]
  if not each or not each.granted or quota < each.granted then return 0, 0 end
  if Quotas.sum(line, whole, shard, quota) > whole then return 0, 0 end
  local free = math.floor(whole) - Quotas.sum(line, whole, shard, each.granted)
  local tokens = min(line.tokens, free)
  local given = min(tokens, quota - each.granted)
  line.tokens = tokens - given
  each.granted, each.epoch = quota, Quotas.next_epoch(each.epoch)
  Quotas.save_line(limit, line)
  return each.epoch, given
end

local epochs = {}
for limit, shard, quota, whole in gmatch(changes, '(%S+) (%d+) (%d+) (%d+)\n') do
  local epoch, tokens = grant(limit, shard + 1, tonumber(quota), tonumber(whole))
  insert(epochs, int(epoch) .. ' ' .. num(tokens))
end
return epochs
