-- The arithmetic of weighted fair queueing. Nothing here reads or writes Redis. Costs, tags and
-- virtual times are whole microseconds: Redis reads and writes whole numbers fastest.
-- fairqueue/_stores/fairness.py has those that the audit needs, too.
Fairness.FLOOR = 1000 -- a cost of zero would never move a tag
Fairness.COUNTED = 1000000 -- the cost of each job where jobs are counted
local DECLINED = 100000
-- The most that a blocked workspace keeps behind virtual time, or owes ahead of it, in strides.
local CREDIT_STRIDES = 8
local MICROSECONDS = 1000000
local KEEP_STRIDE, MEAN_KEEPS = 0.95, 0.8

function Fairness.whole(number)
  return number + 0.5 - (number + 0.5) % 1
end

function Fairness.microseconds(seconds)
  return Fairness.whole(seconds * MICROSECONDS)
end

function Fairness.seconds(microseconds)
  return microseconds / MICROSECONDS
end

-- How far a job of this cost moves the tag of a workspace or node.
function Fairness.stride(cost, weight)
  return max(1, Fairness.whole(cost / weight))
end

function Fairness.credit(stride)
  return CREDIT_STRIDES * stride
end

-- Whether a limit, a rate or the removal of expired jobs holds back what waits here.
function Fairness.is_held(state)
  return state == 'at_limit' or state == 'at_task_limit' or state == 'rate'
    or state == 'task_rate' or state == 'put_off'
end

-- The tag from which the next one counts. finish_tag is nil for a workspace that was never served
-- here.
function Fairness.base_of(state, virtual_time, finish_tag, stride, max_stride)
  if not finish_tag then return virtual_time end
  if Fairness.is_held(state) then
    return max(finish_tag, virtual_time - Fairness.credit(max(stride, max_stride)))
  end
  if state == 'ready' then return finish_tag end
  return max(virtual_time, finish_tag)
end

-- The furthest ahead of virtual time that a workspace may be after a start from its reserve.
function Fairness.farthest(virtual_time, stride, max_stride)
  return virtual_time + Fairness.credit(max(stride, max_stride))
end

-- Virtual time for a workspace that joins after it was idle: level with the others. Where no other
-- has a tag it starts again, or tags would grow until a stride is lost in them.
function Fairness.caught_up(virtual_time, head_tag, head_stride, highest_finish_tag)
  if head_tag then return max(virtual_time, head_tag - head_stride) end
  return highest_finish_tag and max(virtual_time, highest_finish_tag) or 0
end

function Fairness.largest_stride(max_stride, stride)
  return max(stride, Fairness.whole(KEEP_STRIDE * max_stride))
end

function Fairness.rescaled(tag, virtual_time, ratio)
  return Fairness.whole(virtual_time + (tag - virtual_time) * ratio)
end

-- Weights are summed as whole numbers, so that sums do not drift.
function Fairness.units_of(weight)
  return math.floor(weight * 1000000 + 0.5)
end

function Fairness.weight_of(units)
  return units / 1000000
end

function Fairness.mean_after(mean, value)
  return mean and MEAN_KEEPS * mean + (1 - MEAN_KEEPS) * value or value
end

function Fairness.estimate_after(estimate, worked)
  if not estimate then return Fairness.whole(worked) end
  return Fairness.whole(MEAN_KEEPS * estimate + (1 - MEAN_KEEPS) * worked)
end

-- The average number of seconds between two starts.
function Fairness.start_interval_after(start_interval, last_start, now)
  if last_start == 0 then return 0 end
  return Fairness.mean_after(start_interval > 0 and start_interval or nil, now - last_start)
end

-- A job cannot have worked for longer than its lease was held.
function Fairness.worked(reported, held)
  return max(0, min(reported, held))
end

-- What a job is charged whose lease expired after so long: all of it, reported or not.
function Fairness.lost(reported, held)
  return max(tonumber(reported), held)
end

-- What a declined job is charged. Charged nothing, a workspace whose jobs no worker knows would go
-- first again and again. Its worker has other slots, and serves none of them meanwhile.
function Fairness.declined(held)
  return max(DECLINED, held)
end

-- Generic cell rate algorithm: the theoretical arrival time (tat) after one more start.
function Fairness.tat_after(tat, now, rate)
  return max(tat, now) + 1 / rate
end

-- No start under these limits leaves a later tat: one that is was left by a lower rate, and would
-- hold back what this one lets start.
function Fairness.tat_under(tat, now, rate, burst)
  return min(tat, now + burst / rate)
end

-- The earliest next start under a rate.
function Fairness.next_start(tat, rate, burst)
  return tat - (burst - 1) / rate
end
