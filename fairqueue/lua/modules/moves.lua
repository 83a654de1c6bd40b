-- Workspaces that move to another shard, since the number of shards changes. What waits and the
-- dead letters go page by page: a page is read on the old shard, taken in by the new one, and then
-- removed from the old one, so a job is always on one of them. Each step may be repeated.
--   moved: workspace -> the shard that it has moved to, behind a > while it moves; '': the
--          process that moves them; +workspace: it lives here, though its name says another shard;
--          @workspace: it is a parent, and stays here
--   item:  kind queue :task priority id score notice until key size\nrecord
--     kind: lane, returned, scheduled, dead, or cancelled (a notice); score: of its sorted set
--     notice: when its notice is due; until, key: the unique key that it holds; '-' is none
--     size: of the record, or of the whole letter
local ITEMS_BYTES = 262144 -- of records: one page is one reply
local READ_AT_ONCE = 100 -- elements that are looked at together

-- What a pause says while a workspace moves: what an operator has set, and then the move's own,
-- with the shard to which it goes.
function Moves.held(text, to)
  if find(text, 'moves=', 1, true) then return text end
  return (text ~= '' and text .. ' ' or '') .. 'paused=' .. now_text .. ' moves=' .. to
end

-- Lift it; what an operator has set holds again, since when that was.
function Moves.lift(name, field, text)
  local stamp, before = call('HGET', K.stored_by(), field), Moves.not_held(text)
  Limits.put(field, before)
  if stamp and before ~= '' then call('HSET', K.stored_by(), field, stamp) end
  Settle.workspace(Moves.workspace(name))
end

function Moves.lift_all()
  for _, field in ipairs(call('SMEMBERS', K.limits_with('pauses'))) do
    local name, text = match(field, '^pause:workspace:(.*)$'), Moves.text(field)
    if name and find(text, 'moves=', 1, true) then Moves.lift(name, field, text) end
  end
end

-- Whether workspaces move at all: a process that was stopped meanwhile may come too late.
function Moves.are_under_way()
  return call('HEXISTS', K.limits(), 'moves') == 1
end

-- Let publishes ask from now on whether their workspace lives elsewhere, for its parent.
function Moves.open_ways()
  Shard.load().spread = ' spread ' -- so that requests ask, too
  call('HSET', K.limits(), 'forwards', 1)
  call('HDEL', K.tasks(), '#plain') -- see publish.lua
end

function Moves.has_jobs(ws)
  return Moves.page(ws, 1).n > 0 or call('EXISTS', K.slots_of_workspace(ws.name)) == 1
end

-- Keep nothing of a workspace without jobs but where it is now.
function Moves.leave(ws, to)
  for _, source in ipairs({ 'live', 'provider', 'pause' }) do
    Limits.put(Moves.field(source, ws.name), '')
  end
  call('ZREM', K.asked(), ws.name)
  call('HDEL', K.lost(), ws.name)
  call('HDEL', K.observed(), ws.name)
  for _, task in ipairs(call('HKEYS', K.indexed_tasks())) do
    call('ZREM', K.task_rates(), ws.name .. ':' .. task)
  end
  call('HSET', K.moved(), ws.name, to)
  call('HDEL', K.moved(), '+' .. ws.name)
  ws.limits, ws.tat = nil, '0'
  Settle.workspace(ws)
end

function Moves.not_held(text)
  return (string.gsub(text, ' ?paused=%S+ moves=%S+$', ''))
end

-- It is held, so one without a record would be looked for by its keys, which may take long.
function Moves.workspace(name)
  local ws = Records.workspace(name)
  if not ws.raw then
    ws.is_unread = call('ZSCORE', K.timer(), name)
      or call('EXISTS', K.slots_of_workspace(name)) == 1
  end
  return ws
end

function Moves.field(source, name)
  return source .. ':workspace:' .. name
end

function Moves.text(field)
  return call('HGET', K.limits(), field) or ''
end

-- Until when the unique key of a job counts, and the key.
function Moves.key_of(queue, id)
  local job = queue .. ' ' .. id
  local field = call('HGET', K.keyed(), job)
  local held = field and call('HGET', K.unique(), field) or ''
  if match(held, '^%S+ %S+') ~= job then return '-', '-' end
  return match(held, '(%S+)$'), ':' .. match(field, '^[^:]*:[^:]*:(.*)$')
end

function Moves.is_full(page)
  return page.n >= page.most or page.bytes >= ITEMS_BYTES
end

function Moves.add(page, kind, queue, id, score, notice, record, text)
  local _, task, priority = Jobs.identity_of(record)
  local until_then, key = Moves.key_of(queue, id)
  insert(page.items, concat({ kind, queue, ':' .. task, priority, id, score,
    notice, until_then, key, #text }, ' ') .. '\n' .. text)
  page.n, page.bytes = page.n + 1, page.bytes + #text
end

function Moves.add_job(page, kind, queue, element, score)
  local id = Jobs.id_of(element or '')
  local record = id and not Moves.is_full(page) and Jobs.read(queue, id)
  if record and Jobs.deliveries_of(record) then
    Moves.add(page, kind, queue, id, score, '-', record, record)
  end
end

-- Give each member of a sorted set with its score, in slices, until the page is full.
function Moves.each_scored(page, key, add)
  local from = 0
  repeat
    local found = call('ZRANGE', key, from, from + READ_AT_ONCE - 1, 'WITHSCORES')
    for i = 1, #found, 2 do add(found[i], found[i + 1]) end
    from = from + READ_AT_ONCE
  until #found < 2 * READ_AT_ONCE or Moves.is_full(page)
end

-- The jobs of one lane, in the order in which they start. The first elements that are equal to one
-- that is marked are holes.
function Moves.add_lane(page, ws, flow, priority)
  local holes, seen, from = K.holes(ws.name, flow.lane_key, priority), {}, 0
  Moves.each_scored(page, K.returned(ws.name, flow.lane_key, priority), function(element, score)
    Moves.add_job(page, 'returned', flow.queue, element, score)
  end)
  if Moves.is_full(page) then return end
  repeat
    local some =
      call('LRANGE', K.lane(ws.name, flow.lane_key, priority), from, from + READ_AT_ONCE - 1)
    local marks = #some > 0 and call('HMGET', holes, unpack(some))
    for i, element in ipairs(some) do
      seen[element] = (seen[element] or 0) + 1
      if seen[element] > tonumber(marks[i] or 0) then
        Moves.add_job(page, 'lane', flow.queue, element, '-')
      end
    end
    from = from + READ_AT_ONCE
  until #some < READ_AT_ONCE or Moves.is_full(page)
end

function Moves.add_letters(page, name, kind)
  Moves.each_scored(page, K.dead_letters_by_age(name), function(id, score)
    local letter = not Moves.is_full(page) and DeadLetters.read(name, id)
    local record = letter and DeadLetters.record_of(letter)
    if not record or not Jobs.deliveries_of(record) then return end
    local queue = DeadLetters.queue_of(letter)
    local notice = call('ZSCORE', K.unreported(queue), name .. ' ' .. id) or '-'
    Moves.add(page, kind, queue, id, score, notice, record, letter)
  end)
end

-- The next `most` items of a workspace.
function Moves.page(ws, most)
  local page = { items = {}, n = 0, bytes = 0, most = most }
  for _, flow in ipairs(Flows.all(ws)) do
    for priority in gmatch(flow.lanes, '%d+') do
      if not Moves.is_full(page) then Moves.add_lane(page, ws, flow, priority) end
    end
  end
  Moves.each_scored(page, K.scheduled(ws.name), function(entry, score)
    local queue, _, element = Jobs.read_entry(entry)
    Moves.add_job(page, 'scheduled', queue, element, score)
  end)
  Moves.add_letters(page, ws.name, 'dead')
  Moves.add_letters(page, '!' .. ws.name, 'cancelled')
  return page
end

function Moves.take_key(ws, item)
  if item.key == '-' then return end
  local field = concat({ ws.name, item.task, item.key:sub(2) }, ':')
  call('HSET', K.unique(), field, concat({ item.queue, item.id, item.until_then }, ' '))
  call('HSET', K.keyed(), item.queue .. ' ' .. item.id, field)
end

function Moves.place(ws, item)
  local element = Jobs.element(item.task, item.id)
  if item.kind == 'scheduled' then
    return Timers.schedule(ws, item.queue, item.priority, element, tonumber(item.score))
  end
  local flow = Records.flow(ws, Lanes.key_of(item.queue, item.task))
  if item.kind == 'returned' then
    return Lanes.put_back(ws, flow, item.priority, element, item.score)
  end
  Lanes.push(ws, flow, item.priority, element)
end

-- False: another workspace of this shard has a job of this id.
function Moves.take_job(ws, item)
  local there = Jobs.read(item.queue, item.id)
  if there then return Jobs.identity_of(there) == ws.name end
  local expires = Jobs.expires_at(item.record)
  Records.register(item.queue)
  Jobs.write_new(item.queue, item.id, item.record)
  Moves.place(ws, item)
  if expires then
    Timers.add_expiry(ws, item.queue, item.priority, Jobs.element(item.task, item.id), expires)
  end
  Moves.take_key(ws, item)
  return true
end

function Moves.take_letter(ws, item)
  local name = (item.kind == 'cancelled' and '!' or '') .. ws.name
  if DeadLetters.read(name, item.id) then return true end
  Records.register(item.queue)
  DeadLetters.write(name, item.id, item.record)
  call('ZADD', K.dead_letters_by_age(name), item.score, item.id)
  if item.notice ~= '-' then
    call('ZADD', K.unreported(item.queue), item.notice, name .. ' ' .. item.id)
  end
  DeadLetters.list_workspace(name)
  Moves.take_key(ws, item)
  return true
end

-- Take one item in; false: its job cannot come here now.
function Moves.take(ws, item)
  Tasks.name(item.task)
  if item.kind == 'dead' or item.kind == 'cancelled' then
    return Moves.take_letter(ws, item)
  end
  return Moves.take_job(ws, item)
end

function Moves.read_items(text)
  local items, at = {}, 1
  while at <= #text do
    local kind, queue, task, priority, id, score, notice, until_then, key, size, from = match(text,
      '^(%S+) (%S+) :(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d+)\n()', at)
    at = from + size
    insert(items, { kind = kind, queue = queue, task = task, priority = priority, id = id,
      score = score, notice = notice, until_then = until_then, key = key,
      record = text:sub(from, at - 1) })
  end
  return items
end

function Moves.drop_job(ws, queue, task, priority, id)
  local record = Jobs.read(queue, id)
  if not record or Jobs.identity_of(record) ~= ws.name then return end
  local element = Jobs.element(task, id)
  if not Removal.pick(ws, queue, priority, element) then return end
  Enqueue.forget_key(queue, id)
  Jobs.remove(queue, id)
  Timers.drop_expiry(ws, queue, priority, element)
end

function Moves.drop_letter(name, queue, id)
  DeadLetters.take(name, id)
  DeadLetters.list_workspace(name)
  Enqueue.forget_key(queue, id)
end
