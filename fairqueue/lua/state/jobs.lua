-- The job's record, and the elements by which lanes and schedules name a job. Only this module
-- knows their form.
--   record:   workspace task priority deliveries history published[>due][/[expires][=key]]\npayload
--   due:      when a job becomes due that was delayed on its publish; key: its unique key
--   history:  0, or 1 + how often it was declined and the fence of its first start, then each start
--             that counts, the oldest first: 1/fence,fence:owner:claimed:ended:seconds:outcome,...
--   element:  task:id, in a lane
--   entry:    queue priority task:id, in a schedule or among the jobs that expire
-- Every other place knows a job by workspace/queue/id, which functions call its id: an equal id in
-- another workspace, or on another queue, is another job.
local STARTS_KEPT = 16
local PAGE_BYTES = 131072
local SAMPLED = 4 -- records of which the largest says how many are a page

function Jobs.queue_of(id)
  return match(id, '^[^/]+/([^/]*)')
end

function Jobs.read(queue, id)
  return call('HGET', K.jobs(queue), id)
end

function Jobs.write(queue, id, record)
  call('HSET', K.jobs(queue), id, record)
end

-- A page of a hash of records, at most `most`: as many as PAGE_BYTES hold, judged by the largest of
-- some that are chosen at random. Records have payloads: to read many large ones would stop Redis.
-- Return the following cursor, {id, record, ...}, and whether there could have been more.
function Jobs.page(jobs, cursor, most)
  local largest = 1
  for _, id in ipairs(call('HRANDFIELD', jobs, SAMPLED)) do
    largest = max(largest, call('HSTRLEN', jobs, id))
  end
  local count = max(1, math.floor(PAGE_BYTES / largest))
  local is_cut = count < tonumber(most)
  local following_cursor, found =
    unpack(call('HSCAN', jobs, cursor, 'COUNT', int(is_cut and count or most)))
  return following_cursor, found, is_cut
end

-- Write the record of a new job; false: there is a job of this id. If the script fails before the
-- job has a place, its record goes again.
function Jobs.write_new(queue, id, record)
  local is_new = call('HSETNX', K.jobs(queue), id, record) == 1
  if is_new then S.added_job = id end
  return is_new
end

function Jobs.remove(queue, id)
  return call('HDEL', K.jobs(queue), id)
end

function Jobs.record(workspace, task, priority, deliveries, history, published, payload)
  return workspace .. ' ' .. task .. ' ' .. priority .. ' ' .. deliveries .. ' ' .. history .. ' '
    .. published .. '\n' .. payload
end

-- times: '>' and when it is due, '/' and when it expires, or nothing.
function Jobs.new(workspace, task, priority, payload, times)
  return workspace .. ' ' .. task .. ' ' .. priority .. ' 0 0 ' .. now_text:sub(1, 14) .. times
    .. '\n' .. payload
end

-- nil: there is no record, or it cannot be read.
function Jobs.deliveries_of(record)
  return tonumber(match(record or '', '^%S+ %S+ %d+ (%d+) %S+ %S+\n') or nil)
end

-- They were taken from where they stood: if the script fails, they go back.
function Jobs.take(name, queue, priority, elements)
  for _, element in ipairs(elements) do
    insert(S.taken_jobs, { name, queue, priority, element })
  end
end

function Jobs.element(task, id)
  return task .. ':' .. (match(id, '^[^/]*/[^/]*/(.*)$') or id)
end

function Jobs.task_of(element)
  return match(element, '^[^:]+')
end

-- nil: this is no element.
function Jobs.task_and_id(name, queue, element)
  local task, own = match(element or '', '^([^:]+):(.*)$')
  return task, task and name .. '/' .. queue .. '/' .. own
end

function Jobs.id_of(name, queue, element)
  local _, id = Jobs.task_and_id(name, queue, element)
  return id
end

function Jobs.entry(queue, priority, element)
  return concat({ queue, priority, element }, ' ')
end

function Jobs.read_entry(entry)
  return match(entry, '^(%S+) (%S+) (.*)$')
end

-- Workspace, task and priority of a record.
function Jobs.identity_of(record)
  return match(record, '^(%S+) (%S+) (%S+)')
end

function Jobs.history_of(record)
  return match(record, '^%S+ %S+ %S+ %S+ (%S+)')
end

function Jobs.published_at(record)
  return match(record, '^%S+ %S+ %S+ %S+ %S+ ([^>/\n]+)')
end

-- Since when it waits: when it was due first, or when its last start that counts has ended.
function Jobs.waits_since(record)
  local history, published, due =
    match(record, '^%S+ %S+ %S+ %S+ (%S+) ([%d.]+)>?([%d.]*)')
  if not published then return nil end
  local ended = match(history, ':([%d.]+):[^:]+:%a+$')
  return max(tonumber(due ~= '' and due or published), tonumber(ended) or 0)
end

function Jobs.expires_at(record)
  return tonumber(match(record, '^%S+ %S+ %S+ %S+ %S+ [^/\n]*/([%d.]+)'))
end

function Jobs.forget_expiry(queue, id)
  local record = Jobs.read(queue, id)
  if not Jobs.expires_at(record or '') then return end
  Jobs.write(queue, id, string.gsub(record, '^(%S+ %S+ %S+ %S+ %S+ [^/\n]*/)[%d.]*', '%1', 1))
end

-- The unique key that it was published with.
function Jobs.key_of(record)
  return match(record, '^%S+ %S+ %S+ %S+ %S+ [^/\n]*/[%d.]*=(%S+)\n')
end

-- Where that is held; nil: it has none.
function Jobs.unique_field(record)
  local name, task = Jobs.identity_of(record)
  local key = Jobs.key_of(record)
  return key and concat({ name, task, key }, ':')
end

-- The queue and id of the job that took a unique key last, and until when it counts.
function Jobs.holder_of(field)
  return match(call('HGET', K.unique(), field) or '', '^(%S+ %S+) ([%d.]+)$')
end

-- Free a key, if it is this job's.
function Jobs.free_key(field, queue, id)
  if field and Jobs.holder_of(field) == queue .. ' ' .. id then call('HDEL', K.unique(), field) end
end

function Jobs.payload_of(record)
  return match(record, '^[^\n]*\n(.*)$')
end

-- The payload for a list: empty where it has more bytes.
function Jobs.small_payload(record, most)
  local from = Jobs.payload_start(record)
  return #record - from < tonumber(most) and record:sub(from) or ''
end

-- Where the payload begins in a record.
function Jobs.payload_start(record)
  return find(record, '\n', 1, true) + 1
end

-- The starts after a lease ended; outcome is nil for a start that does not count.
function Jobs.starts_after(starts, l, outcome, worked)
  if not outcome or outcome == 'declined' then return starts end
  local _, kept = string.gsub(starts, ',', ',')
  if kept >= STARTS_KEPT then starts = string.gsub(starts, ',[^,]*', '', 1) end
  local start = { l.fence, l.owner, l.claimed, now_text, num(Fairness.seconds(worked)), outcome }
  return starts .. ',' .. concat(start, ':')
end

-- The history after a lease ended, and the fence of its first start.
function Jobs.history_after(history, l, outcome, worked)
  local handed, first_fence, starts = match(history, '^(%d+)/?(%d*)(.*)$')
  if first_fence == '' then first_fence = l.fence end
  handed = max(1, tonumber(handed)) + (outcome == 'declined' and 1 or 0)
  starts = Jobs.starts_after(starts, l, outcome, worked)
  return int(handed) .. '/' .. first_fence .. starts, first_fence
end

-- The record of a leased job after its lease, and the fence of its first start. nil: it cannot be
-- read, and is set aside.
function Jobs.record_after(l, deliveries, outcome, worked)
  local record, first_fence = Jobs.read(l.queue, l.id)
  local history, published, payload =
    match(record or '', '^%S+ %S+ %S+ %S+ (%d%S*) (%S+)\n(.*)$')
  if not history then return Shard.set_aside('job', l.id, record) end
  history, first_fence = Jobs.history_after(history, l, outcome, worked)
  return Jobs.record(l.workspace, l.task, l.priority, int(deliveries), history, published, payload),
    first_fence
end

-- The record of a job that is published again from the dead letters: it has not been declined yet.
function Jobs.published_again(record)
  local workspace, task, priority = Jobs.identity_of(record)
  local history = string.gsub(Jobs.history_of(record), '^%d+/?%d*', '1')
  local key, payload = Jobs.key_of(record), Jobs.payload_of(record)
  local published = now_text:sub(1, 14) .. (key and '/=' .. key or '')
  return Jobs.record(workspace, task, priority, 0, history, published, payload)
end
