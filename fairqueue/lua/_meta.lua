-- The shard's own numbers in one string, read once and written once. 'fence' and 'serial' only grow.
--   fence serial beat grace watcher watched drain window
local meta, before

function Meta.load()
  if meta then return meta end
  meta = {}
  before = call('GET', K.meta()) or '0 0 0 0 - 0 - 0'
  meta.fence, meta.serial, meta.beat, meta.grace, meta.watcher, meta.watched, meta.drain, meta.window =
    match(before, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  return meta
end

function Meta.following(counter)
  local n = int(Meta.load()[counter] + 1)
  meta[counter] = n
  return n
end

function Meta.save()
  if not meta then return end
  local text = concat({ meta.fence, meta.serial, meta.beat, meta.grace, meta.watcher, meta.watched,
    meta.drain, meta.window }, ' ')
  if text ~= before then call('SET', K.meta(), text) end
end
