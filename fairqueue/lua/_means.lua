-- What a job is expected to cost, in worker-seconds, and what it is charged.
local MEANS_KEPT = 16 -- tasks whose average a workspace keeps

local averages = {}

function Means.average_of(task)
  if averages[task] == nil then
    local mean, all = unpack(call('HMGET', K.means(), task, 'all'))
    local sum, count = match(all or '0 0', '^(%S+) (%S+)$')
    averages[task] = tonumber(mean or nil) or false
    averages.sum, averages.count = averages.sum or tonumber(sum), averages.count or tonumber(count)
  end
  return averages[task] or (averages.count > 0 and averages.sum / averages.count or 0)
end

function Means.own_mean(ws, task)
  for _, entry in ipairs(ws.means) do
    if entry.task == task then return entry end
  end
end

function Means.learn(ws, task, seconds)
  local entry = Means.own_mean(ws, task)
  if not entry then
    entry = { task = task }
    insert(ws.means, entry)
    if #ws.means > MEANS_KEPT then remove(ws.means, 1) end
  end
  entry.mean = Fair.mean_after(entry.mean, seconds)
  Means.average_of(task)
  averages[task] = Fair.mean_after(averages[task] or nil, seconds)
  averages.sum, averages.count = averages.sum + seconds, averages.count + 1
  call('HSET', K.means(), task, num(averages[task]), 'all', num(averages.sum) .. ' ' .. num(averages.count))
end

function Means.cost_of(ws, flow)
  if Limits.of(ws).count then return 1 end
  local task = flow.head or match(call('LINDEX', K.lane(ws.name, flow.queue, match(flow.lanes, '^%d+')), 0), '^%d+')
  local entry = Means.own_mean(ws, task)
  if entry then return max(entry.mean, Fair.FLOOR_SECONDS) end
  local _, _, head_cost = Order.head_of(Nodes.of(flow.queue))
  return Fair.guessed_cost(Means.average_of(task), head_cost)
end
