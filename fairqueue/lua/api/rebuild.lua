-- Write one thing again from truth that the auditor has found to be damaged, as far as it still is.
-- ARGV now what names extra
-- RETURNS what was done, in a word; empty: nothing, it is sound by now
local _, what, names, extra = unpack(ARGV)
local ways = {
  entry = RebuildFound.entry, field = RebuildPages.field, job = RebuildFound.job,
  lease = RebuildFound.lease, workspace = RebuildFound.workspace, lane = RebuildFound.lane,
  node = RebuildFound.node, shared_limit = RebuildFound.shared_limit,
  letter = RebuildFound.letter, record = RebuildFound.record, key = RebuildFound.key,
  foreign = RebuildFound.key, shard = RebuildFound.shard, schedule = RebuildFound.schedule,
}
local parts = {}
for part in gmatch(names .. '\n', '([^\n]*)\n') do insert(parts, part) end
local done = ways[what](extra, unpack(parts))
RebuildJobs.settle()
return done or ''
