-- Give quotas a new epoch in the ledger, before they are set to less; what is granted stays.
-- ARGV now shards changes
-- RETURNS for each "epoch most": it may be set to no more than is granted; if that is not known, 0.
-- "0 0": there is no such shard any more
-- changes: "limit shard" of each, one in a line
local _, shards, changes = unpack(ARGV)
local epochs = {}
for limit, shard in gmatch(changes, '(%S+) (%d+)\n') do
  local line = Quotas.line(limit, tonumber(shards))
  local each = line[shard + 1]
  if each then
    each.epoch = Quotas.next_epoch(each.epoch)
    Quotas.save_line(limit, line)
  end
  insert(epochs, each and int(each.epoch) .. ' ' .. int(each.granted or 0) or '0 0')
end
return epochs
