-- The form of a workspace's record. It is one hash field:
--   weight tat last_start start_interval scheduled[/expiring] timer [parent[move]]|;flow...|
--   ;estimate...
-- An estimate of a task's duration: task=microseconds
-- move: while it moves between groups, what is done and with which other group, see
-- Settle.change_group: >group/cursor, <group/cursor or =group/cursor
-- A flow is how a workspace stands in one node: lane_key state since tag finish
--     arrival cost lanes
--   lane_key: a queue, or queue/task for a task that has a limit of its own; behind it an @ while
--     the flow is still in the group that its workspace has left
--   finish: the tag of its last start, F; '-': it has none
--   state: ready, reserved (ready, and below its reserve), at_limit, at_task_limit (at its task's
--     limit per workspace), paused, rate, task_rate (its task's per workspace), busy (nothing waits
--     here, some of it runs), idle, idle_with_debt (idle, and its finish tag is ahead of virtual
--     time), put_off (see Select.clear), failed (see commit.lua)
--   arrival: its position among equal tags, in 15 digits; '-' unless it is in the ready set
--   lanes: the priorities in use, each with + where jobs have come back; a space and
--     priority=n,... follow where elements of a lane are holes: their jobs were taken out of the
--     middle
local PLAIN = '^(%S+ %S+ %S+ %S+) %- %-|;([^ /]+) ([%l_]+) (%S+) (%S+) (%S+) (%S+) (%S+) '
  .. '([%d,+]*)|([^|]*)$'
local UNLIMITED = '1 0 0 0' -- most have neither weight, rate nor capacity

local ONE_LANE = '^%S+ %S+ %S+ %S+ %- [^|]*|;([^; @]+) %S+ %S+ %S+ %S+ %S+ %S+ (%d+)|'

-- The lane key and priority of the only lane, where no job is scheduled, has come back or has left
-- a hole; nil: there is more.
function WorkspaceRecords.only_lane(raw)
  return match(raw, ONE_LANE)
end

-- Most have one flow, in the node of a queue, and nothing waits for time; nil: it is another. The
-- table is made at its full size.
function WorkspaceRecords.plain(name, raw)
  local head, lane_key, state, since, tag, finish, arrival, cost, lanes, estimates =
    match(raw, PLAIN)
  if not head or state == 'reserved' then return nil end
  local weight, tat, last_start, start_interval = '1', '0', '0', '0'
  if head ~= UNLIMITED then
    weight, tat, last_start, start_interval = match(head, '^(%S+) (%S+) (%S+) (%S+)$')
  end
  local flow = { lane_key = lane_key, queue = lane_key, node = lane_key, state = state,
    since = since, tag = tag, finish_tag = finish ~= '-' and finish or nil,
    arrival = arrival ~= '-' and arrival or nil, cost = cost, lanes = lanes }
  return { name = name, raw = raw, flows = { flow }, duration_estimates = estimates,
    weight = weight, tat = tat, last_start = last_start, start_interval = start_interval,
    limits = false, dirty = false, known_task = false, known = false, follows = false,
    others = false, waits = false, usage = false }
end

function WorkspaceRecords.flow(f)
  local text = ';' .. f.lane_key .. (f.is_behind and '@ ' or ' ')
    .. (f.reserved and 'reserved' or f.state) .. ' ' .. f.since .. ' ' .. f.tag .. ' '
    .. (f.finish_tag or '-') .. ' ' .. (f.arrival or '-') .. ' ' .. f.cost .. ' ' .. f.lanes
  return f.holes and text .. WorkspaceRecords.holes_text(f.holes) or text
end

function WorkspaceRecords.text(ws)
  local times, flows = ' - -', ws.flows
  if ws.timer or ws.scheduled or ws.expiring or ws.parent or ws.move then
    times = ' ' .. (ws.scheduled and num(ws.scheduled) or '-')
      .. (ws.expiring and '/' .. num(ws.expiring) or '')
      .. ' ' .. (ws.timer and num(ws.timer) or '-')
      .. ((ws.parent or ws.move) and WorkspaceRecords.parent_text(ws) or '')
  end
  local text = ws.others and WorkspaceRecords.left(ws.others) or ''
  if flows[1] then text = text .. WorkspaceRecords.flow(flows[1]) end
  if flows[2] then
    local texts = { text }
    for i = 2, #flows do texts[i] = WorkspaceRecords.flow(flows[i]) end
    text = concat(texts)
  end
  return ws.weight .. ' ' .. ws.tat .. ' ' .. ws.last_start .. ' ' .. ws.start_interval .. times
    .. '|' .. text .. '|' .. ws.duration_estimates
end

-- The parts of a long record: its head, its flows, its estimates; nil: it has others. The flows
-- stay where they are in the text, since each copy of it takes as long as many commands:
--   from, to: where they stand; cut: which were read, by lane key
--   starts, ends: where those stand, and the position behind each, by its start
--   left: how many bytes were not read
function WorkspaceRecords.parts(raw)
  local bar = find(raw, '|', 1, true)
  local next_bar = bar and find(raw, '|', bar + 1, true)
  if not next_bar then return nil end
  local others = { text = raw, from = bar + 1, to = next_bar - 1, cut = {},
    starts = {}, ends = {}, left = next_bar - 1 - bar }
  return raw:sub(1, bar - 1), others, raw:sub(next_bar + 1)
end

-- What is left of the flows.
function WorkspaceRecords.left(others)
  local kept, at = {}, others.from
  table.sort(others.starts)
  for _, start in ipairs(others.starts) do
    insert(kept, others.text:sub(at, start - 1))
    at = others.ends[start]
  end
  insert(kept, others.text:sub(at, others.to))
  return concat(kept)
end

-- The flow whose text stands there is read.
function WorkspaceRecords.cut_at(others, lane_key, from, to)
  to = min(to, others.to + 1)
  others.cut[lane_key], others.ends[from] = true, to
  insert(others.starts, from)
  others.left = others.left - (to - from)
  return others.text:sub(from, to - 1)
end

-- One flow is cut out: return its text.
function WorkspaceRecords.cut(others, lane_key)
  if others.cut[lane_key] then return nil end
  local from = find(others.text, ';' .. lane_key .. ' ', others.from, true)
    or find(others.text, ';' .. lane_key .. '@ ', others.from, true)
  if not from then return nil end
  local to = find(others.text, ';', from + 1, true) or others.to + 1
  return WorkspaceRecords.cut_at(others, lane_key, from, to)
end

-- The first `most` flows are cut out for whose task ('': of all), mark and state this holds. Return
-- their text, and the lane key of the following one; nil: there is no other.
function WorkspaceRecords.cut_some(others, most, holds)
  local found = {}
  for from, queue, task, mark, state, to in
    gmatch(others.text, '();([^ @/]+)/?([^ @]*)(@?) (%S+)[^;]*()') do
    local lane_key = holds(task, mark, state) and (task == '' and queue or queue .. '/' .. task)
    if lane_key and not others.cut[lane_key] then
      if #found >= most then return concat(found), lane_key end
      insert(found, WorkspaceRecords.cut_at(others, lane_key, from, to))
    end
  end
  return concat(found)
end

-- Whether a flow is in this state, or was when it was read. The names of queues may end so.
function WorkspaceRecords.has_state(others, state)
  local at = others.from
  repeat
    at = find(others.text, state .. ' ', at + 1, true)
  until not at or others.text:sub(at - 1, at - 1) == ' '
  return at ~= nil
end

-- The tasks of flows in this state, as a set.
function WorkspaceRecords.tasks_in(others, state)
  local tasks = {}
  if not WorkspaceRecords.has_state(others, state) then return tasks end -- to look for it is cheap
  for lane_key, task in gmatch(others.text, ';([^ @/]+/?([^ @]*))@? ' .. state .. ' ') do
    if not others.cut[lane_key] then tasks[task] = true end
  end
  return tasks
end

-- The first `most` lane keys that come behind this one, in their order. To sort all of them takes
-- longer.
function WorkspaceRecords.lane_keys(others, behind, most)
  local first = {}
  for lane_key in gmatch(others.text, ';([^ @]+)@? ') do
    local last = first[most]
    if not (last and lane_key > last) and lane_key > behind and not others.cut[lane_key] then
      local at = min(#first + 1, most)
      while at > 1 and first[at - 1] > lane_key do
        first[at], at = first[at - 1], at - 1
      end
      first[at] = lane_key
    end
  end
  return first
end

-- Each flow is still in the group that its workspace has left.
function WorkspaceRecords.mark_all(others)
  others.text = string.gsub(WorkspaceRecords.left(others), '(;[^ ]+) ', '%1@ ')
  others.from, others.to, others.left, others.starts = 1, #others.text, #others.text, {}
end

-- Its group, and the other one while it moves. '' is no group.
function WorkspaceRecords.read_parent(ws, text)
  local parent, stage, group, cursor = match(text, '^([^<>=]*)([<>=]?)([^/]*)/?(%d*)$')
  if parent ~= '' then ws.parent = parent end
  if stage ~= '' then ws.move = { stage = stage, group = group, cursor = cursor } end
end

function WorkspaceRecords.parent_text(ws)
  local move = ws.move
  local text = move and concat({ move.stage, move.group, '/', move.cursor }) or ''
  return ' ' .. (ws.parent or '') .. text
end

function WorkspaceRecords.read_mark(flow)
  local lane_key = match(flow.lane_key, '^(.*)@$')
  if not lane_key then return end
  flow.lane_key, flow.queue, flow.node, flow.is_behind = lane_key, lane_key, lane_key, true
end

-- How many elements of each lane of a flow are holes, by priority.
function WorkspaceRecords.read_holes(text)
  local holes = {}
  for priority, n in gmatch(text, '(%d+)=(%d+)') do holes[priority] = tonumber(n) end
  return holes
end

function WorkspaceRecords.holes_text(holes)
  local texts = {}
  for priority, n in pairs(holes) do insert(texts, priority .. '=' .. int(n)) end
  return #texts > 0 and ' ' .. concat(texts, ',') or ''
end
