-- One page of the owners that gave a sign of life, and what their apps declare.
-- ARGV now cursor count
-- ROUTE all MERGE pages owner silent_seconds
-- RETURNS {now, cursor, owner, "seen digest about", ..., #digest, app, ...}: see heartbeat.lua
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, found = unpack(call('HSCAN', K.workers(), cursor, 'COUNT', count))
local rows, apps = { now_text, following_cursor }, {}
for i = 1, #found, 2 do
  local digest = match(found[i + 1], '^%S+ (%S+)')
  if not find(found[i], '^#') then
    insert(rows, found[i])
    insert(rows, found[i + 1])
    if digest then apps['#' .. digest] = true end
  end
end
for field in pairs(apps) do
  insert(rows, field)
  insert(rows, call('HGET', K.workers(), field) or '')
end
return rows
