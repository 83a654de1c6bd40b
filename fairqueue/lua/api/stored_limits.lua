-- One page of all limits, pauses and drains that are stored.
-- ARGV now cursor count
-- ROUTE all MERGE pages scope,name,source
-- RETURNS {now, cursor, {field, text, "time process"}, ...}
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, found = unpack(call('HSCAN', K.limits(), cursor, 'COUNT', count))
local rows = { now_text, following_cursor }
for i = 1, #found, 2 do
  if find(found[i], '^%a+:[%a_]+:') then
    insert(rows, { found[i], found[i + 1], call('HGET', K.stored_by(), found[i]) or '' })
  end
end
return rows
