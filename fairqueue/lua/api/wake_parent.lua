-- A child of this task has ended: its job goes to the head of its lane, if it waits for that.
-- ARGV now workspace task_id
-- ROUTE workspace
-- RETURNS 1; 0: there is no such job, or it runs
local _, name, task_id = unpack(ARGV)

Shard.refuse_moved(name)
local letter = DeadLetters.read('!!' .. name, task_id)
local queue, fence, own = match(letter or '', '^%S+ (%S+) steps (%d+) ([^ \n!]+)')
local record = own and Jobs.read(queue, own)
if Steps.have_ended(letter) or not Jobs.deliveries_of(record) then return 0 end
local _, task, priority = Jobs.identity_of(record)
if call('HEXISTS', K.slots_of_queue(queue), own) == 1 then
  local l = { queue = queue, id = own .. '!', task = task, fence = fence }
  Steps.write(l, name, task_id, now, Steps.lines_of(letter) or '')
  return 0
end
local ws, element = Records.workspace(name), Jobs.element(task, own)
local first_fence = match(Jobs.history_of(record), '^%d+/(%d+)')
if not (first_fence and Removal.pick(ws, queue, priority, element)) then return 0 end
local flow = Records.flow(ws, Lanes.key_of(queue, task))
Lanes.put_back(ws, flow, priority, element, first_fence)
Settle.workspace(ws)
return 1
