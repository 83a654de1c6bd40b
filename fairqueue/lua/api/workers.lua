-- One page of the owners that gave a sign of life: node, software, and what each takes jobs from.
-- ARGV now cursor count
-- ROUTE all MERGE pages
-- RETURNS {now, cursor, text, last sign of life, takes, ...}
-- takes: see heartbeat.lua; '': not known
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, found = unpack(call('ZSCAN', K.workers(), cursor, 'COUNT', count))
local owners, rows = {}, { now_text, following_cursor }
for i = 1, #found, 2 do insert(owners, match(found[i], '^%S+')) end
local takes = #owners > 0 and call('HMGET', K.worker_queues(), unpack(owners))
for i = 1, #owners do
  insert(rows, found[2 * i - 1])
  insert(rows, found[2 * i])
  insert(rows, takes[i] or '')
end
return rows
