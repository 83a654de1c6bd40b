-- COLD: jobs of one task that are dropped where they wait, perhaps among others.
local SLICE = 512 -- elements of a lane that are read at once

function Pick.among(ws, flow, priority, task, most)
  local lane, n, at, some = K.lane(ws.name, flow.place, priority), 0, 0
  repeat
    some = call('LRANGE', lane, at, at + SLICE - 1)
    for i, element in ipairs(some) do
      if n < most and match(element, '^%d+') == task then
        call('LSET', lane, at + i - 1, '')
        n = n + Drop.job(flow.queue, element)
        if ws.expiring then Expiry.drop(ws, flow.queue, priority, element) end
      end
    end
    at = at + #some
  until #some < SLICE or n >= most
  if n == 0 then return 0 end
  call('LREM', lane, 0, '')
  Lanes.refresh(ws, flow, priority)
  return n
end

-- A lane of the task's own, or one that it shares.
function Pick.lanes(ws, flow, task, most)
  if flow.task == task then return Drop.lanes(ws, flow, most) end
  local n = 0
  for priority in gmatch(flow.task and '' or flow.lanes, '%d+') do
    n = n + Pick.among(ws, flow, priority, task, most - n)
  end
  return n
end

-- What waits of a task in one workspace, on one queue or on all ('').
function Pick.waiting(ws, queue, task, most)
  local n = 0
  for _, flow in ipairs(ws.flows) do
    if n < most and (queue == '' or flow.queue == queue) then
      local dropped = Pick.lanes(ws, flow, task, most - n)
      if dropped > 0 then Wake.touched[flow.queue] = true end
      n = n + dropped
    end
  end
  if n < most and ws.scheduled then n = n + Drop.scheduled(ws, queue, most - n, task) end
  if n > 0 then Settle.workspace(ws) end
  return n
end
