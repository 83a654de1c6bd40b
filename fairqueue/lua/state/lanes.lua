-- Lanes: one list of elements per workspace, lane key and priority. The flow names the priorities.
--
-- Jobs that came back stand before all others of their lane, in the order of their first starts:
-- they are in a set of their own, by the fence of that start, and the flow marks the priority by +.
--
-- A job that is taken out of the middle leaves its element behind as a hole, since to find it would
-- take as long as the lane. The hole is marked (element -> how many) and counted in the flow. It
-- goes when it comes to an end of the lane, or with the last job of the lane. Where a job is
-- published again under the id of a hole, it stands behind that hole, so the first of two is meant.
local SLICE = 64 -- elements that one step looks at
-- A lane may have thousands of priorities, so what is done for each job neither sorts nor splits.
function Lanes.is_used(lanes, priority)
  return lanes == priority or find(',' .. lanes, ',' .. priority .. '%f[,+%z]') ~= nil
end

function Lanes.with(lanes, lane)
  local priority = tonumber(match(lane, '%d+'))
  for at, p in gmatch(lanes, '()(%d+)') do
    if tonumber(p) > priority then return lanes:sub(1, at - 1) .. lane .. ',' .. lanes:sub(at) end
  end
  return lanes == '' and lane or lanes .. ',' .. lane
end

-- An element behind all others. Return how many there are now.
function Lanes.append(name, lane_key, priority, element)
  return call('RPUSH', K.lane(name, lane_key, priority), element)
end

function Lanes.push(ws, flow, priority, element)
  Lanes.note(ws, flow, priority, element, Lanes.append(ws.name, flow.lane_key, priority, element))
end

-- An element was appended. A lane that the record does not name and that was there already: there
-- may be others.
function Lanes.note(ws, flow, priority, element, length)
  flow.first_task = flow.lanes == '' and length == 1 and Jobs.task_of(element) or nil
  if Lanes.is_used(flow.lanes, priority) then return end
  flow.lanes, ws.dirty = Lanes.with(flow.lanes, priority), true
  if length > 1 then ws.is_unread = true end
end

-- The first element; nil: there is none, although the flow names the lane.
function Lanes.pop(ws, flow)
  local priority, mark, others = match(flow.lanes, '^(%d+)(%+?),?(.*)$')
  if mark ~= '' then return Lanes.take_returned(ws, flow, priority, 1)[1], priority end
  local lane = K.lane(ws.name, flow.lane_key, priority)
  local element, taken = call('LPOP', lane) or nil, S.taken_jobs
  taken[#taken + 1] = { ws.name, flow.queue, priority, element }
  local following_element = call('LINDEX', lane, '0')
  if following_element then flow.first_task = match(following_element, '^[^:]+')
  else flow.first_task, flow.lanes = nil, others end
  if flow.holes then Lanes.tidy(ws, flow, priority) end
  return element, priority
end

-- The first element and its priority; the element is false if the lane that is named is not there.
function Lanes.head(ws, flow)
  local priority, mark = match(flow.lanes, '^(%d+)(%+?)')
  return mark ~= '' and Lanes.first_returned(ws, flow, priority)
    or call('LINDEX', K.lane(ws.name, flow.lane_key, priority), '0'), priority
end

-- The task of the first job.
function Lanes.first_task(ws, flow)
  if flow.first_task then return flow.first_task end
  return Jobs.task_of(Lanes.head(ws, flow) or '') or '' -- no task has this name
end

-- A task that has a limit of its own has lanes of its own.
function Lanes.key_of(queue, task)
  return Limits.of_task(task) and queue .. '/' .. task or queue
end

function Lanes.length(ws, flow, priority)
  local n = call('LLEN', K.lane(ws.name, flow.lane_key, priority))
  if flow.holes then n = n - Lanes.holes_of(flow, priority) end
  if not find(flow.lanes, '+', 1, true) then return n end
  return n + call('ZCARD', K.returned(ws.name, flow.lane_key, priority))
end

function Lanes.waiting_of(ws)
  local n = ws.scheduled and call('ZCARD', K.scheduled(ws.name)) or 0
  for _, flow in ipairs(ws.others and Flows.all(ws) or ws.flows) do
    for priority in gmatch(flow.lanes, '%d+') do
      n = n + Lanes.length(ws, flow, priority)
    end
  end
  return n
end

-- How many jobs of a workspace wait: of most this is the length of one lane.
function Lanes.waiting_in(name)
  local ws = S.has_read and S.workspaces[name]
  if ws then return Lanes.waiting_of(ws) end
  local raw = call('HGET', K.workspaces(), name)
  local lane_key, priority = WorkspaceRecords.only_lane(raw or '')
  if lane_key then return call('LLEN', K.lane(name, lane_key, priority)) end
  return Lanes.waiting_of(Records.workspace(name, raw))
end

function Lanes.depth_of(queue)
  return call('HLEN', K.jobs(queue)) - call('HLEN', K.slots_of_queue(queue))
end

function Lanes.total_depth()
  local n = -call('ZCARD', K.expiry())
  for _, queue in ipairs(Shard.queues()) do n = n + call('HLEN', K.jobs(queue)) end
  for queue, node in pairs(S.nodes) do -- those that this script has made
    if node.is_new then n = n + call('HLEN', K.jobs(queue)) end
  end
  return n
end

function Lanes.without(lanes, priority)
  local kept = {}
  for each in gmatch(lanes, '[^,]+') do
    if match(each, '%d+') ~= priority then insert(kept, each) end
  end
  return concat(kept, ',')
end

function Lanes.has_returned(flow, priority)
  return find(',' .. flow.lanes, ',' .. priority .. '+', 1, true)
end

function Lanes.first_returned(ws, flow, priority)
  return call('ZRANGE', K.returned(ws.name, flow.lane_key, priority), '0', '0')[1]
end

-- Write into the flow whether a lane has jobs that came back ('+' or '').
function Lanes.mark_returned(ws, flow, priority, mark)
  flow.lanes = Lanes.with(Lanes.without(flow.lanes, priority), priority .. mark)
  ws.dirty, flow.first_task = true, nil
end

-- A job comes back, which was first started with this fence.
function Lanes.put_back(ws, flow, priority, element, first_fence)
  call('ZADD', K.returned(ws.name, flow.lane_key, priority), first_fence, element)
  Lanes.mark_returned(ws, flow, priority, '+')
end

-- Jobs that came back were taken.
function Lanes.tidy_returned(ws, flow, priority)
  flow.first_task = nil
  if call('EXISTS', K.returned(ws.name, flow.lane_key, priority)) == 1 then return end
  Lanes.mark_returned(ws, flow, priority, '')
  Lanes.tidy(ws, flow, priority)
end

function Lanes.take_returned(ws, flow, priority, count)
  local returned = K.returned(ws.name, flow.lane_key, priority)
  local jobs = call('ZRANGE', returned, 0, count - 1)
  if #jobs > 0 then call('ZREM', returned, unpack(jobs)) end
  Jobs.take(ws.name, flow.queue, priority, jobs)
  Lanes.tidy_returned(ws, flow, priority)
  return jobs
end

-- The first of the jobs that came back goes to the lane of another flow, with those of its task
-- that follow it, at most `most`.
function Lanes.move_returned(ws, flow, priority, to, most)
  local returned, jobs, scored = K.returned(ws.name, flow.lane_key, priority), {}, {}
  local found = call('ZRANGE', returned, 0, most - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if Jobs.task_of(found[i]) ~= Jobs.task_of(found[1]) then break end
    insert(jobs, found[i])
    insert(scored, found[i + 1])
    insert(scored, found[i])
  end
  call('ZADD', K.returned(ws.name, to.lane_key, priority), unpack(scored))
  call('ZREM', returned, unpack(jobs))
  Lanes.mark_returned(ws, to, priority, '+')
  Lanes.tidy_returned(ws, flow, priority)
end

function Lanes.holes_of(flow, priority)
  return flow.holes and flow.holes[priority] or 0
end

function Lanes.count_holes(ws, flow, priority, more)
  local n = Lanes.holes_of(flow, priority) + more
  flow.holes = flow.holes or {}
  flow.holes[priority] = n > 0 and n or nil
  if not next(flow.holes) then flow.holes = nil end
  ws.dirty = true
end

-- This element is taken from its lane. Return whether it is a hole, whose mark goes with it.
function Lanes.unmark(ws, flow, priority, element)
  local holes = K.holes(ws.name, flow.lane_key, priority)
  local n = tonumber(call('HGET', holes, element) or nil)
  if not n then return false end
  if n > 1 then call('HINCRBY', holes, element, -1) else call('HDEL', holes, element) end
  Lanes.count_holes(ws, flow, priority, -1)
  return true
end

-- How many holes stand at one end of a lane, one after the other; and the `most` elements there.
function Lanes.holes_at(ws, flow, priority, most, at_tail)
  local first, last = 0, most - 1
  if at_tail then first, last = -most, -1 end
  local some = call('LRANGE', K.lane(ws.name, flow.lane_key, priority), first, last)
  local marks = call('HMGET', K.holes(ws.name, flow.lane_key, priority), unpack(some))
  local n = 0
  while n < #some and marks[at_tail and #some - n or n + 1] do n = n + 1 end
  return n, some
end

-- Take the holes from one end of a lane; false: there are more than this call has steps for.
-- The marks go first: an error between leaves an element without a job, which a claim passes. A
-- mark without its element would make a hole of a job that comes there later.
function Lanes.trim(ws, flow, priority, at_tail)
  local lane, most = K.lane(ws.name, flow.lane_key, priority), 1
  while Lanes.holes_of(flow, priority) > 0 do
    local marked, some = Lanes.holes_at(ws, flow, priority, most, at_tail)
    local n = 0 -- a job may have the id of a hole that stands before it
    while n < marked and Lanes.unmark(ws, flow, priority, some[at_tail and #some - n or n + 1]) do
      n = n + 1
    end
    if n > 0 then call(at_tail and 'RPOP' or 'LPOP', lane, n) end
    if n < #some then return true end
    if Shard.is_spent() or most == SLICE and not Shard.take_step() then return false end
    most = SLICE
  end
  return true
end

-- The next job of a lane stands at its head; false: it is further away than this call has steps.
function Lanes.reach_job(ws, flow)
  local priority, mark = match(flow.lanes, '^(%d+)(%+?)')
  return mark ~= '' or not flow.holes or Lanes.trim(ws, flow, priority)
end

-- Elements were taken out of a lane, or became holes: it may have no job any more.
function Lanes.tidy(ws, flow, priority)
  local lane, holes = K.lane(ws.name, flow.lane_key, priority), Lanes.holes_of(flow, priority)
  local length = call('LLEN', lane)
  flow.first_task = nil
  if length > holes then
    return holes > 0 and Lanes.trim(ws, flow, priority) and Lanes.trim(ws, flow, priority, true)
  end
  if holes > 0 then
    local n, some = 0, {} -- after damage one may be marked that does not stand here
    if length > 0 then n, some = Lanes.holes_at(ws, flow, priority, SLICE) end
    call('UNLINK', K.holes(ws.name, flow.lane_key, priority)) -- first, see above
    Lanes.count_holes(ws, flow, priority, -holes)
    if n < #some then return end
    call('UNLINK', lane)
  end
  if Lanes.has_returned(flow, priority) then return end
  flow.lanes = Lanes.without(flow.lanes, priority)
  S.touched_queues[flow.queue] = true
end

-- Take a job out of a lane, which leaves a hole unless the job had come back.
function Lanes.remove(ws, flow, priority, element)
  if Lanes.has_returned(flow, priority)
    and call('ZREM', K.returned(ws.name, flow.lane_key, priority), element) == 1 then
    return Lanes.tidy_returned(ws, flow, priority)
  end
  call('HINCRBY', K.holes(ws.name, flow.lane_key, priority), element, 1)
  Lanes.count_holes(ws, flow, priority, 1)
  Lanes.tidy(ws, flow, priority)
end

-- Which of these elements, about to be taken from the head of a lane, name a job.
function Lanes.without_holes(ws, flow, priority, elements)
  if Lanes.holes_of(flow, priority) == 0 or #elements == 0 then return elements end
  local marks, jobs = call('HMGET', K.holes(ws.name, flow.lane_key, priority), unpack(elements)), {}
  for i, element in ipairs(elements) do
    local is_hole = marks[i] and Lanes.unmark(ws, flow, priority, element)
    if not is_hole then insert(jobs, element) end
  end
  return jobs
end

-- Take up to `count` elements from the head of the first lane; return the jobs among them.
function Lanes.take(ws, flow, count)
  local priority, mark = match(flow.lanes, '^(%d+)(%+?)')
  if mark ~= '' then return Lanes.take_returned(ws, flow, priority, count), priority end
  local lane = K.lane(ws.name, flow.lane_key, priority)
  local some = call('LRANGE', lane, 0, count - 1)
  local jobs = Lanes.without_holes(ws, flow, priority, some)
  if #some > 0 then call('LPOP', lane, #some) end
  Jobs.take(ws.name, flow.queue, priority, jobs)
  Lanes.tidy(ws, flow, priority)
  return jobs, priority
end

-- The first element that names a job, or that of a hole where many holes come first.
function Lanes.first(ws, flow, priority)
  if Lanes.has_returned(flow, priority) then return Lanes.first_returned(ws, flow, priority) end
  local lane = K.lane(ws.name, flow.lane_key, priority)
  local n = flow.holes and Lanes.holes_at(ws, flow, priority, SLICE) or 0
  return call('LINDEX', lane, n) or call('LINDEX', lane, '0')
end

-- The flow in whose lane a waiting job stands. There are two where its task has got or lost a limit
-- of its own since: then the shorter lane is searched.
function Lanes.flow_of(ws, queue, priority, element)
  local task, found, length, other = Jobs.task_of(element)
  for _, lane_key in ipairs({ queue, queue .. '/' .. task }) do
    local flow = Records.flow(ws, lane_key, true)
    if flow and Lanes.is_used(flow.lanes, priority) then
      if Lanes.has_returned(flow, priority)
        and call('ZSCORE', K.returned(ws.name, flow.lane_key, priority), element) then
        return flow
      end
      local n = call('LLEN', K.lane(ws.name, flow.lane_key, priority))
      if not found or n < length then found, length, other = flow, n, found else other = flow end
    end
  end
  if not other then return found end
  local before = call('HGET', K.holes(ws.name, found.lane_key, priority), element) or 0
  local lane = K.lane(ws.name, found.lane_key, priority)
  return call('LPOS', lane, element, 'RANK', before + 1) and found or other
end
