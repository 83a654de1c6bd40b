-- The arithmetic of the fair order; fairqueue/_fairness.py is its twin. Nothing here does I/O.
Fair.FLOOR_SECONDS = 0.001 -- zero would never move a tag
local CREDIT_STEPS = 8 -- what a parked workspace may keep behind V, and owe ahead of it, in steps
local KEEP_STEP, MEAN_KEEPS = 0.95, 0.8

-- Where the next tag starts from. finish is nil for who was never served here.
function Fair.base_of(state, v, finish, step, big)
  if not finish then return v end
  if state == 'parked' or state == 'rate' then
    return max(finish, v - CREDIT_STEPS * max(step, big))
  end
  if state == 'ready' then return finish end
  return max(v, finish)
end

-- How far ahead of V a workspace stands at most that started by its reserve.
function Fair.farthest(v, step, big)
  return v + CREDIT_STEPS * max(step, big)
end

-- Who joins from idle finds V level with the others, not behind those that ran alone.
function Fair.caught_up(v, head_tag, head_step, highest_finish)
  if head_tag then return max(v, head_tag - head_step) end
  return highest_finish and max(v, highest_finish) or v
end

function Fair.largest_step(big, step)
  return max(step, KEEP_STEP * big)
end

-- An unknown duration is guessed, but not above what the next in line was charged. With nobody in
-- line it costs the least: else a guess too high would carry V away from who comes next.
function Fair.guessed_cost(guess, head_cost)
  return max(min(guess, head_cost or 0), Fair.FLOOR_SECONDS)
end

function Fair.rescaled(tag, v, ratio)
  return v + (tag - v) * ratio
end

-- Weights are summed as whole numbers, so that no sum drifts.
function Fair.units_of(weight)
  return math.floor(weight * 1000000 + 0.5)
end

function Fair.weight_of(units)
  return units / 1000000
end

function Fair.mean_after(mean, seconds)
  return mean and MEAN_KEEPS * mean + (1 - MEAN_KEEPS) * seconds or seconds
end

-- How far apart starts are, in seconds.
function Fair.pace_after(pace, last, now)
  if last == 0 then return 0 end
  return Fair.mean_after(pace > 0 and pace or nil, now - last)
end

-- Worker-seconds cannot exceed the time that the lease was held.
function Fair.worker_seconds(seconds, held)
  return max(0, min(seconds, held))
end

-- Generic cell rate: the earliest next start after one at `now`.
function Fair.arrival_after(tat, now, rate)
  return max(tat, now) + 1 / rate
end

function Fair.next_start(tat, rate, burst)
  return tat - (burst - 1) / rate
end
