-- Let the rest of a group in that was let in on the shard which its workspace has left.
-- ARGV now group
-- FULL refused
-- RETURNS 1
local _, group = unpack(ARGV)

Enqueue.admit(group, true)
return 1
