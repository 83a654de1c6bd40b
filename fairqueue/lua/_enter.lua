-- A job enters its lane, or waits for its time.
function Enter.record(name, task, priority, payload, expires)
  return concat({ name, task, priority, 0, 0, now_text:sub(1, 14) .. (expires or '') }, ' ') .. '\n' .. payload
end

function Enter.flow(ws, queue, place, priority, element, delay)
  Nodes.of(queue) -- it is known from now on, also while its only job is held back
  if delay == '0' then
    Lanes.push(ws, Workspaces.flow_of(ws, place), priority, element)
  else
    Timer.schedule(ws, queue, priority, element, now + delay)
  end
  Settle.workspace(ws)
end
