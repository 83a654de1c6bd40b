-- Enqueue jobs one after the other, each as by a publish; those of a group together, or none.
-- ARGV now groups jobs
-- ROUTE workspace MERGE own
-- FULL refused
-- RETURNS 1 each was stored, else for each job what publish returns; of a group that is rejected
-- {2, scope, limit, waiting, start_interval, idle, kept, wanted, entry} for its first job, 5 for
-- others;
-- wanted: how many of its jobs want in there; entry: which of its entries says where
-- groups: for each a line, name|queue workspace task n;...: how many jobs capacity applies to;
-- nothing behind the bar: an earlier step has decided. %3DNAME: all jobs of the call are its jobs
-- jobs: for each job `group size length `, the job as for a publish, and its payload
-- group: the number of its group's line, or 0; the job itself then names none
local _, groups, jobs = unpack(ARGV)
local capacity = Limits.any('capacity')

local function publish(ARGV)
-- BODY publish
end

local group_of = {}
for name, entries in gmatch(groups, '([^|\n]+)|([^\n]*)\n') do
  insert(group_of, { name = name, entries = entries })
end

local function job_at(at)
  local number, size, length, from = match(jobs, '^(%d+) (%d+) (%d+) ()', at)
  local payload_from = from + size
  return tonumber(number), jobs:sub(from, payload_from - 1), payload_from, payload_from + length
end

-- Whether a job of this step exists, or has ended lately.
local function has_known_job()
  local at, job = 1, nil
  while at <= #jobs do
    _, job, _, at = job_at(at)
    local queue, id = match(job, '^%S+ (%S+) %S+ %S+ %S+ (.+)$')
    if call('HEXISTS', K.jobs(queue), id) == 1 or Shard.has_ended(id) then return true end
  end
end

-- Whether a group is let in; else what is returned for this job of it. nil: it was let in before,
-- and each job of the repeat needs room of its own, unless it is known.
local function is_let_in(group)
  if group.is_rejected then return false, 5 end
  if group.is_in then return true end
  local full
  if capacity and group.entries ~= '' then
    local is_known, is_all = Enqueue.is_admitted('0', group.name), match(group.name, '^%%3D')
    if is_known and is_all and has_known_job() then return nil end
    full = (is_all or not is_known) and Enqueue.rejection_of_group(group.entries)
  end
  group.is_rejected, group.is_in = full, not full
  if not full then Enqueue.admit(group.name, capacity) end
  return group.is_in, full
end

local replies, all_new, at = {}, true, 1
while at <= #jobs do
  local number, job, payload_from, after = job_at(at)
  at = after
  local group, is_in, reply = group_of[number], nil, nil
  if group then is_in, reply = is_let_in(group) end
  if is_in ~= false then
    reply = publish({ now_text, job, jobs:sub(payload_from, after - 1), is_in })
  end
  all_new = all_new and reply == 1
  insert(replies, reply)
end
return all_new and 1 or replies
