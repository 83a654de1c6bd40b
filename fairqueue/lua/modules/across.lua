-- How a queue of this shard stands beside itself on the others, in virtual time: kept in a hash as
-- `seen offset idle`. Claimers carry the highest virtual time that they have seen from shard to
-- shard. A queue that had nothing ready begins at that time: the offset is what its own order is
-- behind, and only grows. One that fell far behind, as in an outage, keeps a bounded credit.
local CREDIT_STEPS = 8 -- as in the fair order of one shard, and not below
local CREDIT_SECONDS = 10 -- since steps are small until durations are known

-- Where these queues stand before the claim; times are those that the claimer has seen.
function Across.before(queues, times)
  local stands, names = {}, {}
  for queue in gmatch(queues, '%S+') do insert(names, queue) end
  local kept, nodes = call('HMGET', K.across(), unpack(names)),
    call('HMGET', K.nodes(), unpack(names))
  local i = 0
  for time in gmatch(times, '%S+') do
    i = i + 1
    local seen, ahead, idle = match(kept[i] or '', '^(%S+) (%S+) (%S+)$')
    local virtual_time, max_step = match(nodes[i] or '0 0', '^(%S+) (%S+)')
    local stand = { queue = names[i], text = kept[i], seen = max(tonumber(seen) or 0, time),
      ahead = tonumber(ahead) or 0, idle = idle ~= '0', virtual_time = tonumber(virtual_time) }
    local credit = max(CREDIT_STEPS * max_step, CREDIT_SECONDS)
    stand.ahead = max(stand.ahead, stand.seen - virtual_time - credit)
    insert(stands, stand)
  end
  return stands
end

-- Say in the reply of a claim where they stand after it: `head,seen` of each queue. One that
-- started nothing says that its head is at the time that was seen: it is asked again once others
-- have passed that.
function Across.after(stands, reply)
  local started, told = {}, {}
  for i = 4, #reply, 2 do started[match(reply[i], '^%S+ %S+ (%S+)')] = true end
  for _, stand in ipairs(stands) do
    local head = call('ZRANGE', K.ready(stand.queue), 0, 0, 'WITHSCORES')[2]
    if started[stand.queue] then
      if stand.idle then
        stand.ahead = max(stand.ahead, stand.seen - stand.virtual_time)
      end
      stand.seen = max(stand.seen, stand.virtual_time + stand.ahead)
    end
    local at = started[stand.queue] and head and head + stand.ahead or stand.seen
    local idle = not head or stand.idle and not started[stand.queue]
    local text = num(stand.seen) .. ' ' .. num(stand.ahead) .. (idle and ' 1' or ' 0')
    if text ~= stand.text then call('HSET', K.across(), stand.queue, text) end
    insert(told, num(at) .. ',' .. num(stand.seen))
  end
  reply[3] = reply[3]:gsub('^%S+', '%0/' .. concat(told, ';'))
  return reply
end
