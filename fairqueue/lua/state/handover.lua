-- Jobs that are handed over to another system's lists in the same Redis.

-- "0 celery 3 celery%06%163 ..."
function Handover.read_lists(text)
  local function char(hex) return string.char(tonumber(hex, 16)) end
  for least, list in gmatch(text, '(%d+) (%S+)') do
    insert(S.handover_lists, { tonumber(least), (string.gsub(list, '%%(%x%x)', char)) })
  end
end

-- A job goes to the last list whose least priority it reaches; the other system reads them from
-- their other end.
function Handover.push(record)
  local _, _, priority = Jobs.identity_of(record)
  local to
  for _, one in ipairs(S.handover_lists) do
    if tonumber(priority) >= one[1] then to = one[2] end
  end
  call('LPUSH', to, Jobs.payload_of(record))
end

-- A job that was taken from its lane.
function Handover.job(ws, queue, element)
  local id = Jobs.id_of(ws.name, queue, element)
  local record = Jobs.read(queue, id)
  if not record then return Shard.set_aside('job', id, nil) end
  local _, _, priority = Jobs.identity_of(record)
  Handover.push(record)
  Removal.job(queue, id)
  if ws.expiring then Timers.drop_expiry(ws, queue, priority, element) end
end

-- A page of the jobs of a queue that wait or are scheduled.
function Handover.page(queue, cursor, count)
  local records = {}
  local following_cursor, n = Removal.page(queue, cursor, count, nil, nil, records)
  for _, record in ipairs(records) do Handover.push(record) end
  return following_cursor, n
end
