-- What the ledger has of these limits.
-- ARGV now shards limits
-- RETURNS for each "granted:epoch ..." of each shard; granted is - where it is not known
-- WRITES nothing
local _, shards, limits = unpack(ARGV)
local lines = {}
for limit in gmatch(limits, '%S+') do
  local texts = {}
  for i, each in ipairs(Quotas.line(limit, tonumber(shards))) do
    texts[i] = (each.granted and int(each.granted) or '-') .. ':' .. int(each.epoch)
  end
  insert(lines, concat(texts, ' '))
end
return lines
