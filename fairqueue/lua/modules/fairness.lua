-- The arithmetic of weighted fair queueing. Nothing here reads or writes Redis.
-- fairqueue/_fairness.py has those that the audit needs, too.
Fairness.FLOOR_SECONDS = 0.001 -- a cost of zero would never move a tag
-- The most that a blocked workspace keeps behind virtual time, or owes ahead of it, in steps.
local CREDIT_STEPS = 8
local KEEP_STEP, MEAN_KEEPS = 0.95, 0.8

function Fairness.credit(step)
  return CREDIT_STEPS * step
end

-- Whether a limit, a rate or the removal of expired jobs holds back what waits here.
function Fairness.is_held(state)
  return state == 'at_limit' or state == 'at_task_limit' or state == 'rate'
    or state == 'task_rate' or state == 'put_off'
end

-- The tag from which the next one counts. finish_tag is nil for a workspace that was never served
-- here.
function Fairness.base_of(state, virtual_time, finish_tag, step, max_step)
  if not finish_tag then return virtual_time end
  if Fairness.is_held(state) then
    return max(finish_tag, virtual_time - Fairness.credit(max(step, max_step)))
  end
  if state == 'ready' then return finish_tag end
  return max(virtual_time, finish_tag)
end

-- The furthest ahead of virtual time that a workspace may be after a start from its reserve.
function Fairness.farthest(virtual_time, step, max_step)
  return virtual_time + Fairness.credit(max(step, max_step))
end

-- Virtual time for a workspace that joins after it was idle: level with the others. Where no other
-- has a tag it starts again, or tags would grow until a step is lost in them.
function Fairness.caught_up(virtual_time, head_tag, head_step, highest_finish_tag)
  if head_tag then return max(virtual_time, head_tag - head_step) end
  return highest_finish_tag and max(virtual_time, highest_finish_tag) or 0
end

function Fairness.largest_step(max_step, step)
  return max(step, KEEP_STEP * max_step)
end

function Fairness.rescaled(tag, virtual_time, ratio)
  return virtual_time + (tag - virtual_time) * ratio
end

-- Weights are summed as whole numbers, so that sums do not drift.
function Fairness.units_of(weight)
  return math.floor(weight * 1000000 + 0.5)
end

function Fairness.weight_of(units)
  return units / 1000000
end

function Fairness.mean_after(mean, seconds)
  return mean and MEAN_KEEPS * mean + (1 - MEAN_KEEPS) * seconds or seconds
end

-- The average number of seconds between two starts.
function Fairness.start_interval_after(start_interval, last_start, now)
  if last_start == 0 then return 0 end
  return Fairness.mean_after(start_interval > 0 and start_interval or nil, now - last_start)
end

-- Worker-seconds cannot exceed the time for which the lease was held.
function Fairness.worker_seconds(seconds, held)
  return max(0, min(seconds, held))
end

-- Worker-seconds of a job whose lease expired after so long: what it was held for, reported or not.
function Fairness.held_seconds(reported, held)
  return max(tonumber(reported), held)
end

-- Worker-seconds of a declined job. Charged nothing, a workspace whose jobs no worker knows would
-- go first again and again. Its worker has other slots, and serves none of them meanwhile.
function Fairness.declined_seconds(held)
  return max(0.1, held)
end

-- Generic cell rate algorithm: the theoretical arrival time (tat) after one more start.
function Fairness.tat_after(tat, now, rate)
  return max(tat, now) + 1 / rate
end

-- The earliest next start under a rate; of none at all, never.
function Fairness.next_start(tat, rate, burst)
  if rate == 0 then return math.huge end
  return tat - (burst - 1) / rate
end
