-- A page of the jobs of a queue, or of the dead letters of a workspace, without their payloads.
-- ARGV now kind name cursor count
-- RETURNS {cursor, id, first line, ...}
-- WRITES nothing
local _, kind, name, cursor, count = unpack(ARGV)
local key = kind == 'jobs' and K.jobs(name) or K.dead_letters(name)

local following_cursor, found = Jobs.page(key, cursor, count)
for i = 2, #found, 2 do found[i] = match(found[i], '^[^\n]*') end
insert(found, 1, following_cursor)
return found
