-- A task that waits for its children is suspended: its job is given back, and holds nothing. The
-- end of a child wakes it: it comes back to the head of its lane. One that is not suspended yet by
-- then is marked in the record of its steps, and is not suspended at all.

-- Note whose job waits. Return whether a child has ended since its run has written last. It has
-- started in time, so it does not expire any more.
function Waits.suspend(l, id)
  Jobs.forget_expiry(l.queue, l.id)
  local letter = DeadLetters.read('!!' .. l.workspace, id)
  local fence, woken = match(letter or '', '^%S+ %S+ steps (%d+) (%S+)')
  if not fence or tonumber(fence) > tonumber(l.fence) then return false end
  Steps.write(l, l.workspace, id, now, Steps.lines_of(letter) or '')
  return woken == l.id .. '!'
end

-- A child has ended.
function Waits.wake(name, id)
  local letter = DeadLetters.read('!!' .. name, id)
  if Steps.have_ended(letter) then return 0 end
  local queue, fence, own = match(letter or '', '^%S+ (%S+) steps (%d+) ([^ \n!]+)')
  local record = own and Jobs.read(queue, own)
  if not Jobs.deliveries_of(record) then return 0 end
  local _, task, priority = Jobs.identity_of(record)
  if call('HEXISTS', K.slots_of_queue(queue), own) == 1 then
    local l = { queue = queue, id = own .. '!', task = task, fence = fence }
    Steps.write(l, name, id, now, Steps.lines_of(letter) or '')
    return 0
  end
  local ws, element = Records.workspace(name), Jobs.element(task, own)
  local first_fence = match(Jobs.history_of(record), '^%d+/(%d+)')
  if not (first_fence and Removal.pick(ws, queue, priority, element)) then return 0 end
  local flow = Records.flow(ws, Lanes.key_of(queue, task))
  Lanes.put_back(ws, flow, priority, element, first_fence)
  Settle.workspace(ws)
  return 1
end
