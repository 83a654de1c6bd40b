-- The flows of a workspace that has many follow it page by page, where it closes or opens, or gets
-- another reserve: some of them with each call, those first that a call was about longest ago. Its
-- timer is due until all have followed. A claim starts nothing in a flow that has not followed yet:
-- it compares the limits of the workspace, and settles that flow.
local FOLLOW_AT_ONCE = 10 -- flows that follow their workspace with one call
local FLOWS_OF_A_STEP = 4

-- Where the flows of a workspace belong now.
function Follow.place_of(ws, block, is_below)
  local open = is_below and 'reserved' or 'ready'
  return { ws = ws, wanted = block or open, is_open = not block,
    rests = Limits.usage_of(ws) == 0, due = {} }
end

-- Whether flows of a task in this state must be settled. What is in debt waits for virtual time.
function Follow.must_settle(place, task, state)
  local ws, flow, is_limited = place.ws, { task = task }, task ~= '' and Limits.of_task(task)
  if state == 'idle_with_debt' then return false end
  if state == 'idle' then return place.rests or is_limited end
  if state == 'busy' then return not is_limited or SharedLimits.running(ws, flow) == 0 end
  local block = task ~= '' and place.is_open and SharedLimits.task_block(ws, flow)
  return state ~= (block or place.wanted)
end

function Follow.is_due(place, task, state)
  local due = place.due[task] or {}
  place.due[task] = due
  if due[state] == nil then due[state] = not not Follow.must_settle(place, task, state) end
  return due[state]
end

-- Whether any flow may have to follow: this looks for words, and not at each flow.
function Follow.is_any_due(ws, place)
  if find(ws.others.text, '/', ws.others.from, true) then return true end
  if place.rests and WorkspaceRecords.has_state(ws.others, 'idle') then return true end
  for state in gmatch('ready reserved at_limit rate paused failed put_off', '%S+') do
    if state ~= place.wanted and WorkspaceRecords.has_state(ws.others, state) then return true end
  end
  return false
end

-- Read the next flows that must follow; return the lane key of the one behind them, if there is
-- one. Where the workspace has opened, an owner that waits for that one is woken, and goes on.
function Follow.go_on(ws, block, is_below)
  local place, before = Follow.place_of(ws, block, is_below), #ws.flows
  local where = concat({ place.wanted, place.rests and 'rests' or nil }, ' ')
  if ws.stands == where then return nil end -- no other flow had to follow before
  ws.stands = where
  if not Follow.is_any_due(ws, place) then return nil end
  local most = min(FOLLOW_AT_ONCE - (ws.followed or 0), FLOWS_OF_A_STEP * Shard.steps_left())
  local following = Flows.read_some(ws, max(0, most), function(task, _, state)
    return Follow.is_due(place, task, state)
  end)
  local n = #ws.flows - before
  ws.followed, ws.stands = (ws.followed or 0) + n, not following and where or nil
  Shard.took_steps(math.ceil(n / FLOWS_OF_A_STEP))
  if following and not block then Wakeups.expect(match(following, '^[^/]+'), now) end
  return following
end

-- Read the next flows that are still in the group that their workspace has left; return whether
-- there are more.
function Follow.read_behind(ws, most)
  return Flows.read_some(ws, most, function(_, mark) return mark ~= '' end) ~= nil
end
