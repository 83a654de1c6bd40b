-- A page of a hash or a sorted set: what is in it, with texts or scores.
-- Of jobs and dead letters, which have payloads, only the first lines.
-- ARGV now kind name structure cursor count
-- ROUTE all MERGE concat
-- RETURNS {now, cursor, field, text, ...}; a field may come more than once
-- name: what the key is of; empty, if there is one of this kind
-- structure: hash or zset
-- WRITES nothing
local _, kind, name, structure, cursor, count = unpack(ARGV)
local scan = structure == 'hash' and 'HSCAN' or 'ZSCAN'

local following_cursor, found
if kind == 'jobs' or kind == 'dead_letters' then
  following_cursor, found = Jobs.page(K[kind](name), cursor, count)
  for i = 2, #found, 2 do found[i] = match(found[i], '^[^\n]*') end
else
  following_cursor, found = unpack(call(scan, K[kind](), cursor, 'COUNT', count))
end
insert(found, 1, following_cursor)
insert(found, 1, now_text)
return found
