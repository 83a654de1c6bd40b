-- The shard's own numbers in one string, read once and written once. 'fence' and 'serial' only grow.
--   fence serial beat grace spared watcher watched drain window
local meta, before

function Meta.load()
  if meta then return meta end
  meta = {}
  before = call('GET', K.meta()) or '0 0 0 0 0 - 0 - 0'
  meta.fence, meta.serial, meta.beat, meta.grace, meta.spared, meta.watcher, meta.watched, meta.drain, meta.window =
    match(before, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return meta
end

function Meta.following(counter)
  local n = int(Meta.load()[counter] + 1)
  meta[counter] = n
  return n
end

-- Fences begin at the time, in microseconds: so they go on growing where Redis has lost its data,
-- and what was leased before cannot be taken for what is leased now.
function Meta.next_fence()
  local last = Meta.load().fence
  meta.fence = int((last == '0' and now * 1000000 or last) + 1)
  return meta.fence
end

function Meta.save()
  if not meta then return end
  local text = concat({ meta.fence, meta.serial, meta.beat, meta.grace, meta.spared, meta.watcher,
    meta.watched, meta.drain, meta.window }, ' ')
  if text ~= before then call('SET', K.meta(), text) end
end
