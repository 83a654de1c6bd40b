-- Store a page of what belongs to a workspace that comes to this shard, see shards/moves.lua.
-- What is here already stays as it is, so this may be repeated.
-- ARGV now workspace items moves
-- FULL refused
-- RETURNS the items that are here, one in a line: kind queue id; 0 where the workspace is not
-- expected, or the number of shards does not change
-- moves: 1 where its jobs come with it, and nothing starts before the end; 0 where it has none
local _, name, items, moves = unpack(ARGV)
local found, kept, ws = {}, {}

local function read()
  local at = 1
  while at <= #items do
    local kind, queue, id, score, size, from =
      match(items, '^(%S+) (%S+) (%S+) (%S+) (%d+)\n()', at)
    at = from + size
    insert(found, { kind = kind, queue = queue, id = id, score = score,
      record = items:sub(from, at - 1) })
  end
end

-- The limits of a first or last item; nothing starts before the end.
local function put_limits(item)
  if item.kind == 'rest' then Moves.hold(name, '<', Shard.here())
  elseif item.kind == 'end' then call('HDEL', K.moved(), name)
  else return end
  for what, source, value in gmatch(item.record, '(%a+) (%S+) ([^\n]*)\n') do
    if what == 'limits' then
      Limits.put(Moves.field(source, name), value)
    elseif what == 'stamp' and value ~= '' then
      call('HSET', K.stored_by(), Moves.field(source, name), value)
    end
  end
end

local function take_rest(item)
  for what, of, value in gmatch(item.record, '(%a+) (%S+) ([^\n]*)\n') do
    if what == 'tat' then
      ws.tat = num(max(tonumber(ws.tat), tonumber(value)))
    elseif what == 'rate' then
      local rate = name .. ':' .. of
      local here = tonumber(call('ZSCORE', K.task_rates(), rate) or 0)
      call('ZADD', K.task_rates(), num(max(here, tonumber(value))), rate)
    elseif what == 'request' then
      Requests.start(of, now + value)
    end
  end
  if item.kind == 'rest' then return end
  if not moves then Moves.let_all_through() end -- all of it is here
  if call('HEXISTS', K.limits(), 'forwards') == 1 then call('HSET', K.moved(), '+' .. name, 1) end
end

local function take_job(item)
  if Jobs.read(item.queue, item.id) then return end
  local _, task, priority = Jobs.identity_of(item.record)
  local element, expires = Jobs.element(task, item.id), Jobs.expires_at(item.record)
  Tasks.name(task)
  Records.register(item.queue)
  Jobs.write_new(item.queue, item.id, item.record)
  if item.kind == 'scheduled' then
    Timers.schedule(ws, item.queue, priority, element, tonumber(item.score))
  else
    local flow = Records.flow(ws, Lanes.key_of(item.queue, task))
    if item.kind == 'lane' then Lanes.push(ws, flow, priority, element)
    else Lanes.put_back(ws, flow, priority, element, item.score) end
  end
  if expires then Timers.add_expiry(ws, item.queue, priority, element, expires) end
end

local function take_letter(of, item)
  if DeadLetters.read(of, item.id) then return end
  if not DeadLetters.is_of_steps(of) then
    local _, task = Jobs.identity_of(DeadLetters.record_of(item.record))
    Tasks.name(task)
    Records.register(item.queue)
  end
  DeadLetters.write(of, item.id, item.record)
  call('ZADD', K.dead_letters_by_age(of), DeadLetters.death_of(item.record), item.id)
  if item.score ~= '-' then
    call('ZADD', K.unreported(item.queue), item.score, of .. ' ' .. item.id)
  end
  DeadLetters.list_workspace(of)
end

local function take_schedule(item)
  if call('HSETNX', K.schedules(name), item.id, item.record) == 0 then return end
  local r = Schedules.read(name, item.id)
  if r then Schedules.place(r) end
end

local function take(item)
  local kind = item.kind
  if kind == 'dead' then take_letter(name, item)
  elseif kind == 'cancelled' then take_letter('!' .. name, item)
  elseif kind == 'steps' then take_letter('!!' .. name, item)
  elseif kind == 'schedule' then take_schedule(item)
  elseif kind == 'rest' or kind == 'end' then take_rest(item)
  elseif kind == 'key' then call('HSETNX', K.unique(), item.id, item.record)
  else take_job(item) end
end

moves = moves == '1'
if moves and not Moves.are_running() then return 0 end
local is_expected = not moves or find(items, '^rest ')
  or find(call('HGET', K.moved(), name) or '', '^<')
if not is_expected then return 0 end
read()
put_limits(found[#found]) -- before the workspace is read
ws = Moves.workspace(name)
for _, item in ipairs(found) do
  take(item)
  insert(kept, concat({ item.kind, item.queue, item.id }, ' ') .. '\n')
end
Settle.workspace(ws)
return concat(kept)
