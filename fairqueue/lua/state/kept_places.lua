-- Places of a full queue, or of the total ('*'), that become free go to the publish that leaves
-- its workspace with the fewest jobs there; of equal ones to the one that was refused first. So a
-- refusal is noted for a few seconds, and meanwhile those behind it leave it the places it wants.
--   `places:scope` of the shard's hash: `workspace waiting wanted until ...`, those that were
--     refused first before others
local NOTED_SECONDS = 5 -- a publisher that waits for capacity tries again each second
local NOTES_MOST = 64
local SCHEDULED_LOOKED_AT = 64 -- of a workspace, which stand for the others

function KeptPlaces.notes(scope)
  if S.notes_of[scope] then return S.notes_of[scope] end
  local notes, text = {}, call('HGET', K.shard(), 'places:' .. scope) or ''
  for name, waiting, wanted, until_then in gmatch(text, '(%S+) (%d+) (%d+) ([%d.]+)') do
    if now < tonumber(until_then) then
      insert(notes, { name = name, waiting = tonumber(waiting), wanted = tonumber(wanted),
        until_then = until_then })
    end
  end
  S.notes_of[scope] = notes
  return notes
end

function KeptPlaces.save(scope, notes)
  if #notes == 0 then return call('HDEL', K.shard(), 'places:' .. scope) end
  local texts = {}
  for i, note in ipairs(notes) do
    texts[i] = concat({ note.name, int(note.waiting), int(note.wanted), note.until_then }, ' ')
  end
  call('HSET', K.shard(), 'places:' .. scope, concat(texts, ' '))
end

-- How many jobs of a workspace wait in a scope.
function KeptPlaces.waiting_of(ws, scope)
  if scope == '*' then return Lanes.waiting_of(ws) end
  local n, scheduled = 0, ws.scheduled and call('ZCARD', K.scheduled(ws.name)) or 0
  if scheduled > 0 then
    local some = call('ZRANGE', K.scheduled(ws.name), 0, SCHEDULED_LOOKED_AT - 1)
    for _, entry in ipairs(some) do
      if Jobs.read_entry(entry) == scope then n = n + 1 end
    end
    n = math.ceil(n * scheduled / #some)
  end
  for _, flow in ipairs(Flows.all(ws)) do
    for priority in gmatch(flow.queue == scope and flow.lanes or '', '%d+') do
      n = n + Lanes.length(ws, flow, priority)
    end
  end
  return n
end

-- How many places of a scope are kept for others that go before this publish of `wanted` jobs.
function KeptPlaces.from(ws, scope, wanted)
  local kept, is_later, would_have = 0, false, nil
  for _, note in ipairs(KeptPlaces.notes(scope)) do
    if note.name == ws.name then
      is_later = true
    else
      would_have = would_have or KeptPlaces.waiting_of(ws, scope) + wanted
      local its = note.waiting + note.wanted
      if its < would_have or its == would_have and not is_later then kept = kept + note.wanted end
    end
  end
  return kept
end

-- A workspace got in.
function KeptPlaces.forget(name, scope)
  local notes = KeptPlaces.notes(scope)
  for i, note in ipairs(notes) do
    if note.name == name then
      table.remove(notes, i)
      return KeptPlaces.save(scope, notes)
    end
  end
end

-- It was refused. Where there are too many notes, the last in turn is dropped. A Redis that is full
-- takes no note, and the publish is refused all the same.
function KeptPlaces.note(ws, scope, wanted)
  local notes, at = KeptPlaces.notes(scope), nil
  for i, note in ipairs(notes) do
    if note.name == ws.name then at = i end
  end
  notes[at or #notes + 1] = { name = ws.name, waiting = KeptPlaces.waiting_of(ws, scope),
    wanted = wanted, until_then = num(now + NOTED_SECONDS) }
  if #notes > NOTES_MOST then
    local last = 1
    for i, note in ipairs(notes) do
      local before = notes[last]
      if note.waiting + note.wanted >= before.waiting + before.wanted then last = i end
    end
    table.remove(notes, last)
  end
  pcall(KeptPlaces.save, scope, notes)
end
