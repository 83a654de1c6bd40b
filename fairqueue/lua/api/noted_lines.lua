-- A page of the last lines that are noted of a kind, the newest first.
-- ARGV now what start count
-- ROUTE first
-- RETURNS the lines, see note_lines.lua
-- WRITES nothing
local _, what, start, count = unpack(ARGV)

return call('LRANGE', K.noted(what), start, start + count - 1)
