-- A page of what belongs to a workspace that moves, see shards/moves.lua.
-- ARGV now workspace cursor
-- RETURNS {cursor, items}: "0" until all that has a key of its own is gone, "unique 0", ..., "end"
-- WRITES nothing
local _, name, cursor = unpack(ARGV)
local ITEMS_BYTES = 262144 -- of records: one page is one reply
local ITEMS = 100
local ws, items, bytes = Records.workspace(name), {}, 0

local function is_full()
  return #items >= ITEMS or bytes >= ITEMS_BYTES
end

local function add(kind, of, id, score, record)
  insert(items, concat({ kind, of, id, score, #record }, ' ') .. '\n' .. record)
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

-- The score of a letter says when its notice is due.
local function add_fields(kind, of, from)
  local following_cursor, found = Jobs.page(K[kind](of), from, ITEMS)
  for i = 1, #found, 2 do
    local id, record, notice = found[i], found[i + 1], '-'
    if kind == 'dead_letters' then
      local queue = DeadLetters.queue_of(record)
      notice = queue and call('ZSCORE', K.unreported(queue), of .. ' ' .. id) or '-'
    end
    if of or match(id, '^[^:]*') == name then add(kind, of or '-', id, notice, record) end
  end
  return following_cursor
end

-- A hash of its own is read from the start until it is empty: a cursor means nothing after a
-- failover.
local function add_hash(kind, of)
  local from = '0'
  repeat
    from = is_full() and '0' or add_fields(kind, of, from)
  until from == '0'
end

local function add_rest()
  local lines = {}
  local function line(...) insert(lines, concat({ ... }, ' ') .. '\n') end
  for _, source in ipairs(Moves.SOURCES) do
    local field = Moves.field(source, name)
    line('limits', field, call('HGET', K.limits(), field) or '')
    line('stored_by', field, call('HGET', K.stored_by(), field) or '')
  end
  line('tat', '-', ws.tat)
  for _, task in ipairs(call('HKEYS', K.indexed_tasks())) do
    local tat = call('ZSCORE', K.task_rates(), name .. ':' .. task)
    if tat then line('rate', task, tat) end
  end
  for _, ticket in ipairs(call('ZRANGEBYSCORE', K.requests_of_workspace(name), '0', '0')) do
    line('request', ticket, num(max(1, (call('ZSCORE', K.requests(), ticket) or now) - now)))
  end
  add('rest', '-', '-', '-', concat(lines))
end

if cursor == '0' then
  add_jobs('scheduled', K.scheduled(name))
  for _, flow in ipairs(Flows.all(ws)) do
    for priority in gmatch(flow.lanes, '%d+') do
      add_jobs('returned', K.returned(name, flow.lane_key, priority), flow.queue)
      add_jobs('lane', K.lane(name, flow.lane_key, priority), flow.queue)
    end
  end
  for _, of in ipairs({ name, '!' .. name, '!!' .. name }) do add_hash('dead_letters', of) end
  add_hash('schedules', name)
  return { #items > 0 and '0' or 'unique 0', concat(items) }
end
local from = add_fields('unique', nil, match(cursor, '%d+')) -- one page: all workspaces share it
if from == '0' then add_rest() end
return { from == '0' and 'end' or 'unique ' .. from, concat(items) }
