-- The record of a lease: one hash field, by its fence.
--   lane_key id workspace task priority charged claimed ran owner marks deliveries length[/ended]
--   marks: 1 acked early, 2 cancelled, 3 both
--   length: of the lease, in seconds; ended: when it did, if it has been spared since
local LEASE = '^(([^ /]+)%S*) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) '
  .. '([^/]+)/?(%S*)$'

function LeaseRecords.text(l)
  local marks = l.cancelled and (l.early and '3' or '2') or l.early and '1' or '0'
  return l.lane_key .. ' ' .. l.id .. ' ' .. l.workspace .. ' ' .. l.task .. ' ' .. l.priority
    .. ' ' .. l.charged .. ' ' .. l.claimed .. ' ' .. l.ran .. ' ' .. l.owner .. ' ' .. marks .. ' '
    .. int(l.deliveries) .. ' ' .. l.length .. (l.ended and '/' .. l.ended or '')
end

function LeaseRecords.read(fence)
  local text = LeaseRecords.raw(fence)
  return text and LeaseRecords.parse(fence, text) or nil
end

function LeaseRecords.raw(fence)
  return call('HGET', K.leases(), fence)
end

-- nil: it cannot be read.
function LeaseRecords.parse(fence, text)
  local lane_key, queue, id, workspace, task, priority, charged, claimed, ran, owner, marks,
    deliveries, length, ended = match(text, LEASE)
  if not ended then return nil end
  local l = { fence = fence, lane_key = lane_key, queue = queue, id = id, workspace = workspace,
    task = task, priority = priority, charged = charged, claimed = claimed, ran = ran,
    owner = owner, deliveries = tonumber(deliveries), length = length }
  if marks ~= '0' then l.early, l.cancelled = marks == '1' or marks == '3', marks >= '2' end
  if ended ~= '' then l.ended = ended end
  return l
end

-- What stands before and behind `ran` in a record: the job, and of it the lane's key and the
-- workspace; charged, claimed; from the owner up to the length, and of it the owner and the marks.
-- nil: it cannot be read, or there is none.
function LeaseRecords.around_ran(text)
  return match(text or '',
    '^((%S+) %S+ (%S+) %S+ %S+ )(%S+) (%S+) %S+( (%S+) (%S+) %S+ )%S+$')
end

-- Several new leases: when they end, and their records.
function LeaseRecords.grant_all(leases, at)
  local n, words, ends = #leases, S.words, int(Fairness.microseconds(at))
  for i = 1, n do words[2 * i - 1], words[2 * i] = ends, leases[i].fence end
  call('ZADD', K.expiry(), unpack(words, 1, 2 * n))
  for i = 1, n do
    words[2 * i - 1], words[2 * i] = leases[i].fence, LeaseRecords.text(leases[i])
  end
  call('HSET', K.leases(), unpack(words, 1, 2 * n))
  Shard.expect(at)
end

-- fence, record, ...
function LeaseRecords.put(...)
  return call('HSET', K.leases(), ...)
end

function LeaseRecords.remove_all(leases)
  return call('HDEL', K.leases(), Arguments.of(leases, 'fence'))
end

-- Until when a lease is kept if its owner does not renew it.
function LeaseRecords.keep_until(fence, at)
  call('ZADD', K.expiry(), int(Fairness.microseconds(at)), fence)
  Shard.expect(at)
end

function LeaseRecords.save(l)
  call('HSET', K.leases(), l.fence, LeaseRecords.text(l))
end

-- Only these of a record, since to read the whole costs more: where many are counted.
function LeaseRecords.task_and_owner(text)
  return match(text, '^%S+ %S+ %S+ (%S+) %S+ %S+ %S+ %S+ (%S+)')
end
