-- Mend one thing that the auditor has found, as far as it is damaged still.
-- ARGV now what names extra
-- RETURNS what was done, in a word; empty: nothing, it is sound by now
local _, what, names, extra = unpack(ARGV)
local ways = {
  job = MendJobs.job, lane = MendOrder.lane, returned = MendJobs.returned, hole = MendJobs.hole,
  expiring = MendJobs.expiring, scheduled = MendJobs.scheduled,
  lease = MendJobs.lease, slot = MendJobs.slot,
  workspace = MendOrder.workspace, member = MendOrder.member, tag = MendOrder.tag,
  node = MendOrder.node, token = MendOrder.token, shared_limit = MendOrder.shared_limit,
  listed = MendOrder.listed,
  letter = MendEntries.letter,
  letters = MendEntries.letters, notice = MendEntries.notice, asked = MendEntries.asked,
  count = MendEntries.count, keyed = MendEntries.keyed, kind = MendEntries.kind,
  task_rate = MendEntries.task_rate,
  worker = MendEntries.worker,
  key = MendEntries.key, foreign = MendEntries.foreign, shard = MendEntries.shard,
}

local parts = {}
for part in gmatch(names .. '\n', '([^\n]*)\n') do insert(parts, part) end
return ways[what](extra, unpack(parts)) or ''
