-- Enqueue a job in place of the next message of another system's list in the same Redis.
-- ARGV now list message job delay kind unnamed shards
-- ROUTE workspace MERGE own
-- FULL refused
-- RETURNS 1 done, or done before, 0 another message is next, or none,
-- -1 not while jobs are exported to it, -2 its workspace moves, or the caller knows other shards
-- list: '' if the caller has taken the message from a list, and keeps it until this is done
-- job: queue workspace task priority id
-- shards: as in publish.lua
local _, list, message, job, delay, kind, unnamed, shards = unpack(ARGV)
local queue, name, task, priority, id = match(job, '^(%S+) (%S+) (%S+) (%S+) (.+)$')

-- A repeated call, whose reply was lost: an equal message may be next, which is another job.
if call('HEXISTS', K.jobs(queue), id) == 1 or Shard.has_ended(id) then return 1 end
if tonumber(call('HGET', K.notes(), 'imports_suspended') or 0) > now then return -1 end
local spread, moves, forwards =
  unpack(call('HMGET', K.limits(), 'spread', 'moves', 'forwards'))
local is_known = not spread or shards == spread or shards == moves
if not is_known or (moves or forwards) and Shard.has_moved(name) then return -2 end
if list ~= '' and call('LINDEX', list, -1) ~= message then return 0 end

local ws, element = Records.workspace(name), Jobs.element(task, id)
Tasks.name(task)
-- Until the message is taken an error takes the job back; from then on it finds a place for it.
Jobs.write_new(queue, id, Jobs.new(name, task, priority, message, ''))
if list ~= '' then call('RPOP', list) end
S.added_jobs = {}
Jobs.take(name, queue, priority, { element })
Enqueue.enter(ws, queue, Lanes.key_of(queue, task), priority, element, delay)
Enqueue.hold_framework_id(queue, id, true)
Shard.count_in_all('imported ' .. kind, 1)
if unnamed == '1' then Shard.count_unnamed(task) end
return 1
