-- The shard's own numbers, read once and written once. 'fence' and 'serial' only grow.
local FIELDS = { 'fence', 'serial', 'beat', 'grace', 'watcher', 'watched', 'drain' }
local meta, before

function Meta.load()
  if meta then return meta end
  meta, before = {}, {}
  for i, value in ipairs(call('HMGET', K.meta(), unpack(FIELDS))) do
    meta[FIELDS[i]], before[FIELDS[i]] = value or '', value or ''
  end
  return meta
end

function Meta.following(counter)
  local n = num((tonumber(Meta.load()[counter]) or 0) + 1)
  meta[counter] = n
  return n
end

function Meta.save()
  if not meta then return end
  local changed = {}
  for _, field in ipairs(FIELDS) do
    if meta[field] ~= before[field] then
      insert(changed, field)
      insert(changed, meta[field])
    end
  end
  if #changed > 0 then call('HSET', K.meta(), unpack(changed)) end
end
