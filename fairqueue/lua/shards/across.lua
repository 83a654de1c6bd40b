-- How far a queue is on this shard beside the same queue on others, in virtual time: kept in the
-- shard's hash, as `seen offset idle`. Claimers carry the highest virtual time that they have seen,
-- the present, from shard to shard. A queue that had nothing ready begins at the present: the
-- offset is what its own order is behind, and only grows. One that fell far behind, as in an
-- outage, keeps a bounded credit.
local CREDIT = 10000000 -- since steps are small until durations are known
local STAND = '^(%S+) (%S+) (%S+)$'

local function first_tag(queue)
  return call('ZRANGE', K.ready(queue), '0', '0', 'WITHSCORES')[2]
end

-- Where these queues stand before the claim. Each of times is `present:most`: the present that the
-- claimer has seen, and how far a head may be for it to be served; -: however far.
function Across.before(queues, times)
  Shard.load().spread = ' spread '
  local stands, names, fields = {}, {}, {}
  for queue in gmatch(queues, '%S+') do
    insert(names, queue)
    insert(fields, 'across:' .. queue)
    insert(fields, 'queue:' .. queue)
  end
  local kept = call('HMGET', K.shard(), unpack(fields))
  local i = 0
  for present, most in gmatch(times, '([^:%s]+):(%S+)') do
    i = i + 1
    local seen, ahead, idle = match(kept[2 * i - 1] or '', STAND)
    local virtual_time, max_stride = unpacked('<dd', kept[2 * i])
    local stand = { queue = names[i], text = kept[2 * i - 1],
      seen = max(tonumber(seen) or 0, present), ahead = tonumber(ahead) or 0,
      idle = idle ~= '0', virtual_time = virtual_time or 0, is_kept = kept[2 * i] }
    local tag = first_tag(stand.queue)
    if tag and stand.idle then
      stand.ahead, stand.idle = max(stand.ahead, stand.seen - stand.virtual_time), false
    elseif tag then
      local credit = max(Fairness.credit(max_stride or 0), CREDIT)
      stand.ahead = max(stand.ahead, stand.seen - tag - credit)
    end
    stand.at = tag and tag + stand.ahead
    stand.waits = stand.at and most ~= '-' and stand.at > tonumber(most)
    insert(stands, stand)
  end
  return stands
end

-- The queues that are to be served, and how many jobs: in the others, other shards are behind.
function Across.served(stands, queues, n)
  local served = {}
  for _, stand in ipairs(stands) do
    if not stand.waits then insert(served, stand.queue) end
  end
  if #served == #stands then return queues, n end
  stands.wanted = n
  return concat(served, ' '), served[1] and n or 0
end

-- Keep it if the queue is known here, and say it: `head,seen`; without a head nothing is ready, and
-- a head of a queue that is closed, as by a limit, is infinitely far.
function Across.keep(stand)
  local text = num(stand.seen) .. ' ' .. num(stand.ahead) .. (stand.at and ' 0' or ' 1')
  if stand.is_kept and text ~= stand.text then Shard.put('across:' .. stand.queue, text) end
  local head = stand.is_closed and 'inf' or stand.at and num(stand.at)
  return (stand.at and head or '') .. ',' .. num(stand.seen)
end

-- Say in the reply of a claim where they stand after it. One that has less than was wanted, and
-- waits for other shards, says so: there is no time after which to look again.
function Across.after(stands, reply)
  local started, told = {}, {}
  for i = 4, #reply, 2 do started[match(reply[i], '^%S+ %S+ (%S+)')] = true end
  for _, stand in ipairs(stands) do
    if started[stand.queue] then
      stand.seen = max(stand.seen, stand.virtual_time + stand.ahead)
    end
    local tag = first_tag(stand.queue)
    stand.at = tag and tag + stand.ahead
    insert(told, Across.keep(stand))
  end
  local waits = stands.wanted and #reply < 3 + 2 * stands.wanted
  reply[3] = reply[3]:gsub('^%S+', (waits and 'inf' or '%0') .. '/' .. concat(told, ';'))
  return reply
end

-- The present of all shards in this one's own time; nil: there is no other shard, or none has told.
function Across.present(queue)
  if Shard.load().spread == ' ' then return nil end
  local seen, ahead = match(Shard.field('across:' .. queue) or '', STAND)
  return seen and seen - ahead
end
