-- Note in the ledger what shards have left of their quotas, if the epoch of each is still that one.
-- ARGV now shards changes
-- RETURNS how many were noted
-- changes: "limit shard epoch quota tokens" of each, one in a line. A shard may have more than was
-- granted: jobs that started while there was no limit count, and nothing is granted before
-- they have ended. -1: it is not known any more, as where a shard does not have the limit. tokens:
-- of a rate, those that were in what the shard has lost
local _, shards, changes = unpack(ARGV)
local noted = 0
for limit, shard, epoch, quota, tokens in
  gmatch(changes, '(%S+) (%d+) (%d+) (%-?%d+) (%S+)\n') do
  local line = Quotas.line(limit, tonumber(shards))
  local each = line[shard + 1]
  if each and each.epoch == tonumber(epoch) then
    local lost = max(0, (each.granted or 0) - quota) -- a note that is repeated adds nothing
    line.tokens = line.tokens + min(tonumber(tokens), lost)
    each.granted = tonumber(quota) >= 0 and tonumber(quota) or nil
    Quotas.save_line(limit, line)
    noted = noted + 1
  end
end
return noted
