-- Parts of a default that queues have which are not known here any more, page by page.
-- Nothing has moved them for a day. On the first shard, which has the ledger.
-- ARGV now cursor count
-- RETURNS {cursor, limit, ...}
-- WRITES nothing
local _, cursor, count = unpack(ARGV)
local following_cursor, found = unpack(call('HSCAN', K.quota_ledger(), cursor, 'COUNT', count))
local rows = { following_cursor }
for i = 1, #found, 2 do
  local queue = match(found[i], '^%a+:queue:(.*)$')
  if queue and Limits.is_settled(found[i + 1]) and Limits.grants(found[i + 1])
    and concat(Limits.texts('configured:queue:' .. queue, 'live:queue:' .. queue)) == ''
    and call('HEXISTS', K.nodes(), queue) == 0 and call('HEXISTS', K.kinds(), queue) == 0 then
    insert(rows, found[i])
  end
end
return rows
