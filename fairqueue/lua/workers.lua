-- One page of the owners that gave a sign of life, each with its node's name and its software.
-- ARGV now cursor count
-- RETURNS {now, cursor, text, last sign of life, ...}
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local following_cursor, found = unpack(call('ZSCAN', K.workers(), cursor, 'COUNT', count))
return { now_text, following_cursor, unpack(found) }
