-- The records of what is plain, as the short ways of publish and claim read and write them: each is
-- one expression, written where it is used. records.lua, shard.lua and lease_records.lua have the
-- whole of them.
-- The priority of a workspace's only lane, read without the rest of its record; nil where it has
-- others, scheduled jobs, jobs that came back or holes.
function PlainRecords.only_lane_in(raw)
  return match(raw, '^%S+ %S+ %S+ %S+ %- [^|]*|;[^; ]+ %S+ %S+ %S+ %S+ %S+ (%d+)|')
end

-- A workspace that is ready in one queue alone, with one lane, and that waits for nothing: its lane
-- key, since, tag, arrival, cost, lane and estimates; nil: it is another.
function PlainRecords.workspace_of(raw)
  return match(raw or '', '^1 0 0 0 %- %-|;([^ /]+) ready (%S+) (%S+) (%d+) (%S+) (%d+)|(.*)$')
end

function PlainRecords.workspace_text(lane_key, since, tag, arrival, cost, lane, estimates)
  return '1 0 0 0 - -|;' .. lane_key .. ' ready ' .. since .. ' ' .. tag .. ' ' .. arrival .. ' '
    .. cost .. ' ' .. lane .. '|' .. estimates
end

-- Fence, arrival, beat, gaps, watcher, watched and window where nothing else is noted, or nil.
function PlainRecords.shard_of(text)
  return match(text or '', '^(%d+) (%d+) ([%d.]+) (%S+) (%S+) (%S+) %- (%d+) 0 format=1$')
end

function PlainRecords.shard_text(fence, arrival, gaps, watcher, watched, window)
  return fence .. ' ' .. arrival .. ' ' .. now_text .. ' ' .. gaps .. ' ' .. watcher .. ' '
    .. watched .. ' - ' .. window .. ' 0 format=1'
end

-- A lease that was neither acked early nor cancelled, and has not ended: its lane key, id,
-- workspace, task, charge, claim and owner; nil: it is another.
function PlainRecords.lease_of(text)
  return match(text or '',
    '^(%S+) (%S+) (%S+) (%S+) %S+ (%S+) (%S+) %S+ (%S+) 0 %S+ [^/ ]+$')
end

function PlainRecords.lease_text(lane_key, id, workspace, task, priority, charged, owner,
  deliveries, length)
  return lane_key .. ' ' .. id .. ' ' .. workspace .. ' ' .. task .. ' ' .. priority .. ' '
    .. charged .. ' ' .. now_text .. ' 0 ' .. owner .. ' 0 ' .. deliveries .. ' ' .. length
end
