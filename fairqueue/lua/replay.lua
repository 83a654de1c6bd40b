-- Publish dead letters again, as new jobs of their old workspace: one, or a page of the oldest.
-- ARGV now workspace id until_then skip count delay spacing
-- ROUTE workspace
-- FULL refused
-- RETURNS {until_then, replayed, skipped, id, holder, ...}; skipped: there is a job of that id, or
-- the holder, another job, holds its unique key
local _, name, id, until_then, skip, count, delay, spacing = unpack(ARGV)
delay, spacing = tonumber(delay), tonumber(spacing)
if until_then == '' then until_then = now_text end

local function enter(ws, queue, one, record, due)
  local _, task, priority = Jobs.identity_of(record)
  local element = Jobs.element(task, one)
  Records.register(queue)
  Jobs.write(queue, one, Jobs.published_again(record))
  Jobs.take(name, queue, priority, { element })
  DeadLetters.take(name, one) -- after an error before this it is a job, and dead as well
  if due > 0 then return Timers.schedule(ws, queue, priority, element, now + due) end
  Lanes.push(ws, Records.flow(ws, Lanes.key_of(queue, task)), priority, element)
end

Shard.refuse_moved(name)
local ws, replayed, skipped, held = Records.workspace(name), 0, 0, {}
for _, one in ipairs(DeadLetters.chosen(name, id, until_then, skip, count)) do
  local letter = DeadLetters.read(name, one)
  local queue = letter and DeadLetters.queue_of(letter)
  local is_there = letter and call('HEXISTS', K.jobs(queue), one) == 1
  local holder = letter and not is_there and Enqueue.take_key_back(queue, one, letter)
  if is_there or holder then
    skipped = skipped + 1
    if holder then
      insert(held, one)
      insert(held, holder)
    end
  elseif letter then
    enter(ws, queue, one, DeadLetters.record_of(letter), delay + replayed * spacing)
    replayed = replayed + 1
  end
end
DeadLetters.list_workspace(name)
Settle.workspace(ws)
return { until_then, replayed, skipped, unpack(held) }
