-- Whether a job of this id ended here within the last one to two minutes.
-- ARGV now id
-- RETURNS 1 or 0
-- WRITES nothing
local _, id = unpack(ARGV)

return Shard.has_ended(id) and 1 or 0
