-- What a job is expected to cost, in worker-seconds.
local MEANS_KEPT = 16 -- tasks whose average a workspace keeps

local averages = {}

function Means.load(task)
  if averages[task] ~= nil then return end
  local mean, all = unpack(call('HMGET', K.means(), task, 'all'))
  averages[task] = tonumber(mean or nil) or false
  if averages.count then return end
  local sum, count = match(all or '0 0', '^(%S+) (%S+)$')
  averages.sum, averages.count = tonumber(sum), tonumber(count)
end

function Means.average_of(task)
  Means.load(task)
  return averages[task] or (averages.count > 0 and averages.sum / averages.count or 0)
end

function Means.own(ws, task)
  return tonumber(match(ws.means, ';' .. task .. '=([^;]+)'))
end

function Means.set_own(ws, task, mean)
  local text, replaced = string.gsub(ws.means, ';' .. task .. '=[^;]+', ';' .. task .. '=' .. num(mean))
  if replaced == 0 then
    local _, kept = string.gsub(text, ';', ';')
    if kept >= MEANS_KEPT then text = match(text, '^;[^;]+(.*)$') end
    text = text .. ';' .. task .. '=' .. num(mean)
  end
  ws.means = text
end

function Means.learn(ws, task, seconds)
  Means.set_own(ws, task, Fair.mean_after(Means.own(ws, task), seconds))
  Means.load(task)
  averages[task] = Fair.mean_after(averages[task] or nil, seconds)
  averages.sum, averages.count = averages.sum + seconds, averages.count + 1
  call('HSET', K.means(), task, num(averages[task]), 'all', num(averages.sum) .. ' ' .. int(averages.count))
end

-- Worker-seconds that a job of this task is expected to take there; 0: not known.
function Means.expected(ws, task)
  local own = Means.own(ws, task)
  return own and max(own, Fair.FLOOR_SECONDS) or Means.average_of(task)
end

function Means.next_task(ws, flow)
  return flow.head or match(call('LINDEX', K.lane(ws.name, flow.place, match(flow.lanes, '^%d+')), 0), '^%d+')
end

-- The cost of a flow's next job. An unknown one costs no more than the next in line.
function Means.cost_of(ws, flow)
  if Limits.of(ws).fairness == 'count' then return 1 end
  local task = Means.next_task(ws, flow)
  local own = Means.own(ws, task)
  if own then return max(own, Fair.FLOOR_SECONDS) end
  local _, head = Turn.head_of(Nodes.of(flow.node))
  return Fair.guessed_cost(Means.average_of(task), head and tonumber(head.cost))
end
