-- Store a page of what belongs to a workspace that comes to this shard, see shards/moves.lua.
-- What is here already stays as it is, so this may be repeated.
-- ARGV now workspace items
-- FULL refused
-- RETURNS the items that are here, one in a line: kind of id; 0 where the workspace is not
-- expected, or the number of shards does not change
local _, name, items = unpack(ARGV)
local found, kept, tat, at, ws = {}, {}, 0, 1

local is_expected = Moves.are_running() and find(call('HGET', K.moved(), name) or '', '^<')
if not is_expected then return 0 end

-- Limits are put before the workspace is read. It begins here.
local function take_rest(text)
  call('HDEL', K.moved(), name)
  Moves.put(text)
  for what, of, value in gmatch(text, '([%l_]+) (%S+) ([^\n]*)\n') do
    if what == 'tat' then tat = tonumber(value)
    elseif what == 'rate' then
      local rate = name .. ':' .. of
      local here = tonumber(call('ZSCORE', K.task_rates(), rate) or 0)
      call('ZADD', K.task_rates(), num(max(here, tonumber(value))), rate)
    elseif what == 'request' then
      Requests.start(of, now + value)
    end
  end
  if call('HEXISTS', K.limits(), 'forwards') == 1 then call('HSET', K.moved(), '+' .. name, 1) end
end

local function register(queue, record)
  local _, task, priority = Jobs.identity_of(record)
  Tasks.name(task)
  Records.register(queue)
  return task, priority
end

local function take_job(kind, queue, id, score, record)
  if Jobs.read(queue, id) then return end
  local task, priority = register(queue, record)
  local element, expires = Jobs.element(task, id), Jobs.expires_at(record)
  Jobs.write_new(queue, id, record)
  if kind == 'scheduled' then
    Timers.schedule(ws, queue, priority, element, tonumber(score))
  else
    local flow = Records.flow(ws, Lanes.key_of(queue, task))
    if kind == 'lane' then Lanes.push(ws, flow, priority, element)
    else Lanes.put_back(ws, flow, priority, element, score) end
  end
  if expires then Timers.add_expiry(ws, queue, priority, element, expires) end
end

local function take_field(kind, of, id, score, record)
  if kind == 'unique' then return call('HSETNX', K.unique(), id, record) end
  if call('HSETNX', K[kind](of), id, record) == 0 then return end
  if kind == 'schedules' then return RebuildFound.schedule('', of, id) end
  local queue, job = DeadLetters.queue_of(record), DeadLetters.record_of(record)
  RebuildFound.letter('', of, id)
  if score ~= '-' then call('ZADD', K.unreported(queue), score, of .. ' ' .. id) end
  if Jobs.deliveries_of(job) and not DeadLetters.is_of_steps(of) then register(queue, job) end
end

while at <= #items do
  local item, size, from = match(items, '^(%S+ %S+ %S+ %S+) (%d+)\n()', at)
  at = from + size
  local kind, of, id, score = match(item, '^(%S+) (%S+) (%S+) (%S+)')
  local record = items:sub(from, at - 1)
  if kind == 'rest' then take_rest(record) else insert(found, { kind, of, id, score, record }) end
  insert(kept, concat({ kind, of, id }, ' ') .. '\n')
end
ws = Moves.workspace(name)
ws.tat = num(max(tonumber(ws.tat), tat))
for _, item in ipairs(found) do
  local is_field = item[1] == 'unique' or item[1] == 'schedules' or item[1] == 'dead_letters'
  local take = is_field and take_field or take_job
  take(unpack(item))
end
Settle.workspace(ws)
return concat(kept)
