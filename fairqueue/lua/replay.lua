-- Publish dead letters again, as new jobs of their old workspace: one, or a page of the oldest.
-- ARGV now workspace id until_then skip count delay spacing
-- RETURNS {until_then, replayed, skipped}; skipped: a job of that id lives
local _, name, id, until_then, skip, count, delay, spacing = unpack(ARGV)
delay, spacing = tonumber(delay), tonumber(spacing)
if until_then == '' then until_then = now_text end

local function keep(letter, queue, one)
  local header, payload = match(letter, '^[^\n]*\n([^\n]*)\n(.*)$')
  local ws_name, task, priority, history = match(header, '^(%S+) (%S+) (%S+) %S+ (%S+)')
  history = string.gsub(history, '^[1-9]%d*', '1') -- who could not run it, may by now
  header = concat({ ws_name, task, priority, 0, history, now_text:sub(1, 14) }, ' ')
  call('HSET', K.jobs(queue), one, header .. '\n' .. payload)
  return task .. ':' .. one, priority
end

local ws, replayed, skipped = Workspaces.of(name), 0, 0
for _, one in ipairs(Graves.chosen(name, id, until_then, skip, count)) do
  local letter = call('HGET', K.dead(name), one)
  local queue = letter and match(letter, '^%S+ (%S+)')
  if letter and call('HEXISTS', K.jobs(queue), one) == 1 then
    skipped = skipped + 1
  elseif letter then
    Graves.take(name, one)
    Nodes.of(queue)
    local element, priority = keep(letter, queue, one)
    local place, due = Lanes.place_of(queue, match(element, '^%d+')), delay + replayed * spacing
    if due > 0 then
      Timer.schedule(ws, queue, priority, element, now + due)
    else
      Lanes.push(ws, Workspaces.flow_of(ws, place), priority, element)
    end
    replayed = replayed + 1
  end
end
Graves.mark(name)
Settle.workspace(ws)
Wake.all()
Save.all()
return { until_then, replayed, skipped }
