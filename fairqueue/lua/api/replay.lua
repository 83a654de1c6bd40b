-- Publish a dead letter again, as a new job of its old workspace.
-- ARGV now workspace id delay from_start
-- ROUTE workspace
-- FULL refused
-- RETURNS 1; 0: there is no such letter, or a job of that id; the holder, if another job holds its
-- unique key
-- from_start: 1 to forget which steps have finished
local _, name, id, delay, from_start = unpack(ARGV)
delay = tonumber(delay)

Shard.refuse_moved(name)
local letter = DeadLetters.read(name, id)
if not letter then return 0 end
local queue, record = DeadLetters.queue_of(letter), DeadLetters.record_of(letter)
if call('HEXISTS', K.jobs(queue), id) == 1 then return 0 end
local holder = Enqueue.take_key_back(queue, id, record)
if holder then return holder end

local ws = Records.workspace(name)
local _, task, priority = Jobs.identity_of(record)
local element = Jobs.element(task, id)
Records.register(queue)
Jobs.write(queue, id, Jobs.published_again(record))
Jobs.take(name, queue, priority, { element })
if from_start == '1' then Steps.drop(name, Steps.task_of(id)) end
DeadLetters.take(name, id) -- after an error before this it is a job, and dead as well
if delay > 0 then
  Timers.schedule(ws, queue, priority, element, now + delay)
else
  Lanes.push(ws, Records.flow(ws, Lanes.key_of(queue, task)), priority, element)
end
DeadLetters.list_workspace(name)
Settle.workspace(ws)
return 1
