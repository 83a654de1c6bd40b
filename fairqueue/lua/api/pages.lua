-- A page of what belongs to a workspace that moves, see shards/moves.lua.
-- ARGV now workspace cursor
-- RETURNS {cursor, items}: the first cursor is empty, the last one "end"
-- WRITES nothing
local _, name, cursor = unpack(ARGV)
local ITEMS_BYTES = 262144 -- of records: one page is one reply
local ITEMS = 100
local ws, items, bytes = Records.workspace(name), {}, 0

local function is_full()
  return #items >= ITEMS or bytes >= ITEMS_BYTES
end

local function add(kind, queue, id, score, record)
  insert(items, concat({ kind, queue, id, score, #record }, ' ') .. '\n' .. record)
  bytes = bytes + #record
end

-- The jobs of a lane or schedule, in their order. A hole has no record; one whose id was published
-- again, too, gives that job its place.
local function add_jobs(kind, key, queue)
  local from, some = 0
  repeat
    some = call(kind == 'lane' and 'LRANGE' or 'ZRANGE', key, from, from + ITEMS - 1)
    for _, entry in ipairs(is_full() and {} or some) do
      local of, element = queue, entry
      if not queue then of, _, element = Jobs.read_entry(entry) end
      local id = of and Jobs.id_of(name, of, element)
      local record = id and not is_full() and Jobs.read(of, id)
      if record and Jobs.deliveries_of(record) then
        local score = kind == 'lane' and '-' or call('ZSCORE', key, entry)
        add(kind, of, id, score, record)
      end
    end
    from = from + ITEMS
  until #some < ITEMS or is_full()
end

local function add_letters(kind, of)
  local from, ids = 0
  repeat
    ids = call('ZRANGE', K.dead_letters_by_age(of), from, from + ITEMS - 1)
    for _, id in ipairs(ids) do
      local letter = not is_full() and DeadLetters.read(of, id)
      local record = letter and DeadLetters.record_of(letter)
      if record and Jobs.deliveries_of(record) then
        local queue = DeadLetters.queue_of(letter)
        local notice = call('ZSCORE', K.unreported(queue), of .. ' ' .. id) or '-'
        add(kind, queue, id, notice, letter)
      end
    end
    from = from + ITEMS
  until #ids < ITEMS or is_full()
end

local function add_schedules()
  local at, found = '0'
  repeat
    at, found = unpack(call('HSCAN', K.schedules(name), at, 'COUNT', ITEMS))
    for i = 1, #found, 2 do
      if not is_full() then add('schedule', '-', found[i], '-', found[i + 1]) end
    end
  until at == '0' or is_full()
end

local function add_keys()
  local found
  cursor, found = unpack(call('HSCAN', K.unique(), cursor, 'MATCH', name .. ':*', 'COUNT', ITEMS))
  for i = 1, #found, 2 do
    add('key', '-', found[i], '-', found[i + 1])
  end
end

local function add_rest(kind)
  local lines = {}
  local function line(...) insert(lines, concat({ ... }, ' ') .. '\n') end
  for _, source in ipairs(Moves.SOURCES) do
    local field = Moves.field(source, name)
    line('limits', source, Moves.text(field))
    line('stamp', source, call('HGET', K.stored_by(), field) or '')
  end
  line('tat', '-', ws.tat)
  for _, task in ipairs(call('HKEYS', K.indexed_tasks())) do
    local tat = call('ZSCORE', K.task_rates(), name .. ':' .. task)
    if tat then line('rate', task, tat) end
  end
  for _, ticket in ipairs(call('ZRANGEBYSCORE', K.requests_of_workspace(name), '0', '0')) do
    line('request', ticket, num(max(1, (call('ZSCORE', K.requests(), ticket) or now) - now)))
  end
  add(kind, '-', '-', '-', concat(lines))
end

if cursor == '' then
  add_rest('rest')
  return { 'jobs', concat(items) }
end
if cursor == 'jobs' then
  add_jobs('scheduled', K.scheduled(name))
  for _, flow in ipairs(Flows.all(ws)) do
    for priority in gmatch(flow.lanes, '%d+') do
      add_jobs('returned', K.returned(name, flow.lane_key, priority), flow.queue)
      add_jobs('lane', K.lane(name, flow.lane_key, priority), flow.queue)
    end
  end
  add_letters('dead', name)
  add_letters('cancelled', '!' .. name)
  add_letters('steps', '!!' .. name)
  add_schedules()
  if #items > 0 then return { cursor, concat(items) } end
  cursor = '0'
end
add_keys()
if cursor == '0' then
  add_rest('end')
  cursor = 'end'
end
return { cursor, concat(items) }
