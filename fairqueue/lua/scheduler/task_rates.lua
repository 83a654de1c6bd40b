-- Rates of a task in each workspace, over all its queues.
--   task_rates: `workspace:task`, by the theoretical arrival time of that rate
-- An entry that has passed says nothing more. So each start drops some, and they do not pile up.
local PAST_AT_ONCE = 2

-- The rate and burst of a task with these limits in each workspace; nil: it has none.
function TaskRates.of(limits)
  if not limits or not limits.workspace_rate then return nil end
  return { rate = limits.workspace_rate, burst = limits.workspace_burst or 1 }
end

function TaskRates.tat(workspace, task)
  return tonumber(call('ZSCORE', K.task_rates(), workspace .. ':' .. task) or 0)
end

-- When a task with these limits may start again in this workspace; nil: it may now.
function TaskRates.opens(workspace, task, limits)
  local own = TaskRates.of(limits)
  if not own then return nil end
  local tat = TaskRates.tat(workspace, task)
  local under = Fairness.tat_under(tat, now, own.rate, own.burst)
  if under < tat then TaskRates.put(workspace, task, under) end
  local at = Fairness.next_start(under, own.rate, own.burst)
  return at > now + 1e-9 and at or nil
end

function TaskRates.put(workspace, task, tat)
  call('ZADD', K.task_rates(), num(tat), workspace .. ':' .. task)
end

function TaskRates.take(workspace, task, limits)
  local own = TaskRates.of(limits)
  if not own then return end
  local tat = TaskRates.tat(workspace, task)
  TaskRates.put(workspace, task, Fairness.tat_after(tat, now, own.rate))
  TaskRates.drop_past(PAST_AT_ONCE)
end

-- A start was taken back.
function TaskRates.give_back(workspace, task, limits)
  local own = TaskRates.of(limits)
  local member = workspace .. ':' .. task
  if own and call('ZSCORE', K.task_rates(), member) then
    call('ZINCRBY', K.task_rates(), num(-1 / own.rate), member)
  end
end

function TaskRates.drop_past(most)
  local past = call('ZRANGEBYSCORE', K.task_rates(), '-inf', now_text, 'LIMIT', '0', most)
  if #past > 0 then call('ZREM', K.task_rates(), unpack(past)) end
  return #past
end
