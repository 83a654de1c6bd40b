-- Enqueue a job in place of the next message of another system's list in the same Redis.
-- ARGV now list message job delay unnamed shards
-- ROUTE workspace MERGE own
-- FULL refused
-- RETURNS 1 done, or done before, 0 another message is next, or none,
-- -1 not while jobs are exported to it, -2 its workspace moves, or the caller knows other shards
-- list: '' if the caller has taken the message from a list, and keeps it until this is done
-- job: queue workspace task priority id
-- shards: as in publish.lua
local _, list, message, job, delay, unnamed, shards = unpack(ARGV)
local queue, name, task, priority, id = match(job, '^(%S+) (%S+) (%S+) (%S+) (.+)$')

-- A repeated call, whose reply was lost: an equal message may be next, which is another job.
if call('HEXISTS', K.jobs(queue), id) == 1 or Shard.has_ended(id) then return 1 end
if tonumber(call('HGET', K.shard(), 'imports_suspended') or 0) > now then return -1 end
local says_nothing = shards == '' and Limits.any('mark')
if says_nothing or Enqueue.is_elsewhere(name, shards) then return -2 end
if list ~= '' and call('LINDEX', list, -1) ~= message then return 0 end

local element = Jobs.element(task, id)
Tasks.name(task)
-- Until the message is taken an error takes the job back; from then on it finds a place for it.
Jobs.write_new(queue, id, Jobs.new(name, task, priority, message, ''))
if list ~= '' then call('RPOP', list) end
S.added_job = false
Jobs.take(name, queue, priority, { element })
Enqueue.enter(name, queue, task, priority, element, delay)
Enqueue.hold_framework_id(queue, id, true)
if unnamed == '1' then Shard.count_unnamed(task) end
return 1
