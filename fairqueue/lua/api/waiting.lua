-- One page of waiting and scheduled jobs: of a workspace in the order of its lanes, or of queues.
-- ARGV now workspace queue task payloads cursor count
-- ROUTE workspace MERGE own
-- RETURNS {now, cursor, row, ...}
-- row: "queue id workspace task priority deliveries published expires due", a line break, and the
-- payload if that is at most `payloads` bytes; the cursor is 0 at the beginning and at the end; a
-- job may come more than once
-- WRITES nothing
local _, name, queue, task, payloads, cursor, count = unpack(ARGV)
local SCHEDULE = '~'
count = tonumber(count)

local rows = { now_text, '0' }

local function add(of_queue, id, record)
  local deliveries = Jobs.deliveries_of(record)
  if not deliveries or call('HEXISTS', K.slots_of_queue(of_queue), id) == 1 then return end
  local workspace, its_task, priority = Jobs.identity_of(record)
  if task ~= '' and its_task ~= task then return end
  local entry = Jobs.entry(of_queue, priority, Jobs.element(its_task, id))
  local expires = Jobs.expires_at(record)
  insert(rows, concat({ of_queue, id, workspace, its_task, priority, int(deliveries),
    Jobs.published_at(record), expires and num(expires) or '-',
    call('ZSCORE', K.scheduled(workspace), entry) or '-' }, ' ')
    .. '\n' .. Jobs.small_payload(record, payloads))
end

local function add_elements(of_queue, elements)
  for _, element in ipairs(elements) do
    local id = Jobs.id_of(name, of_queue, element)
    if id then add(of_queue, id, Jobs.read(of_queue, id)) end
  end
end

local function add_entries(entries)
  for _, entry in ipairs(entries) do
    local of_queue, _, element = Jobs.read_entry(entry)
    if element and (queue == '' or of_queue == queue) then add_elements(of_queue, { element }) end
  end
end

-- Where jobs of a workspace stand, in the order of their names: the jobs of a lane that came back,
-- then its list, and behind all lanes the schedule.
local function places_of(ws)
  local places = {}
  for _, flow in ipairs(Flows.all(ws)) do
    for p in gmatch((queue == '' or flow.queue == queue) and flow.lanes or '', '%d+') do
      local place = format('%s#%010d#', flow.lane_key, p)
      local returned, lane = K.returned(name, flow.lane_key, p), K.lane(name, flow.lane_key, p)
      insert(places, { place .. '0', flow.queue, 'ZRANGE', returned })
      insert(places, { place .. '1', flow.queue, 'LRANGE', lane })
    end
  end
  table.sort(places, function(one, other) return one[1] < other[1] end)
  insert(places, { SCHEDULE, false, 'ZRANGE', K.scheduled(name) })
  return places
end

local function read_place(place, from, most)
  local _, of_queue, read, key = unpack(place)
  local found = call(read, key, from, from + most - 1)
  if of_queue then add_elements(of_queue, found) else add_entries(found) end
  return #found
end

-- The cursor is the place and how many of it were looked at; what is taken from its head meanwhile
-- makes the next page pass over as many.
local function of_workspace()
  local first, from = match(cursor, '^(.+)#(%d+)$')
  first, from = first or '', tonumber(from or 0)
  for _, place in ipairs(places_of(Records.workspace(name))) do
    if place[1] == SCHEDULE or first ~= SCHEDULE and place[1] >= first then
      if place[1] ~= first then from = 0 end
      local n = read_place(place, from, count)
      count = count - n
      if count <= 0 then return place[1] .. '#' .. int(from + n) end
    end
  end
  return '0'
end

-- One queue, or one after another by name. The cursor is that in a queue's jobs, and the queue. To
-- look at a queue counts as a job.
local function of_queues()
  local inside, first = match(cursor, '^(%d+)/(.*)$')
  for _, each in ipairs(queue ~= '' and { queue } or Shard.queues()) do
    if each >= (first or '') then
      if count <= 0 then return '0/' .. each end
      local from = each == first and inside or '0'
      local following_cursor, found = Jobs.page(K.jobs(each), from, count)
      for i = 1, #found, 2 do add(each, found[i], found[i + 1]) end
      if following_cursor ~= '0' then return following_cursor .. '/' .. each end
      count = count - #found / 2 - 1
    end
  end
  return '0'
end

rows[2] = name ~= '' and of_workspace() or of_queues()
return rows
