-- The records of what is plain, as the short way of a claim reads and writes them. records.lua and
-- lease_records.lua have the whole of them. Each table is made at its full size.
local PLAIN = '^(%S+) 0 (%S+ %S+) %- %-|;([^ /]+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d+)|(.*)$'

-- A workspace that stands in this queue alone, ready or at its own limit, with one lane, and that
-- waits for no time; nil: it is another.
function PlainRecords.workspace(name, queue, text)
  local weight, times, lane_key, state, since, tag, arrival, cost, lane, estimates =
    match(text or '', PLAIN)
  local is_ready = state == 'ready' and arrival ~= '-'
  if lane_key ~= queue or not (is_ready or state == 'at_limit') then return nil end
  return { name = name, weight = weight, times = times, state = state, since = since,
    tag = tonumber(tag), tag_text = tag, arrival = arrival, cost = cost, lane = lane,
    estimates = estimates, member = is_ready and Order.member(arrival, name), finish_tag = false,
    taken = 0, element = false, text = false }
end

function PlainRecords.workspace_text(w, lane_key)
  return w.weight .. ' 0 ' .. w.times .. ' - -|;' .. lane_key .. ' ' .. w.state .. ' ' .. w.since
    .. ' ' .. w.tag_text .. ' ' .. w.arrival .. ' ' .. w.cost .. ' ' .. w.lane .. '|'
    .. w.estimates
end

-- A lease that was not cancelled and has not ended: its lane key, id, workspace, task, charge,
-- claim and owner; nil: it is another.
function PlainRecords.lease_of(text)
  return match(text or '',
    '^(%S+) (%S+) (%S+) (%S+) %S+ (%S+) (%S+) %S+ (%S+) [01] %S+ [^/ ]+$')
end

function PlainRecords.lease_text(lane_key, l, owner, deliveries, length)
  return lane_key .. ' ' .. l.id .. ' ' .. l.workspace .. ' ' .. l.task .. ' ' .. l.lane .. ' '
    .. l.cost .. ' ' .. now_text .. ' 0 ' .. owner .. ' 0 ' .. deliveries .. ' ' .. length
end
