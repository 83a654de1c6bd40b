-- A page of the limits that concern all shards, for one that is new, and what is stored with them.
-- ARGV now cursor count
-- RETURNS {cursor, retention, {field, text, stamp, configured text or ''}, ...}
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, found = unpack(call('HSCAN', K.limits(), cursor, 'COUNT', count))
local rows = { following_cursor, call('HGET', K.notes(), 'retention') or '' }
for i = 1, #found, 2 do
  local field = found[i]
  local source, scope = match(field, '^(%a+):([%a_]+):')
  if source and (source == 'configured' or scope ~= 'workspace') then
    insert(rows, { field, found[i + 1], call('HGET', K.stored_by(), field) or '',
      call('HGET', K.configured(), field) or '' })
  end
end
if cursor == '0' then
  local digest = call('HGET', K.configured(), '')
  if digest then insert(rows, { '', '', '', digest }) end
end
return rows
