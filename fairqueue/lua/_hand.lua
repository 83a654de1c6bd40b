-- Jobs that are handed over to another system's lists in the same Redis.
Hand.lists = {} -- {least priority, list}, the least first

-- "0 celery 3 celery%06%163 ..."
function Hand.read_lists(text)
  local function char(hex) return string.char(tonumber(hex, 16)) end
  for least, list in gmatch(text, '(%d+) (%S+)') do
    insert(Hand.lists, { tonumber(least), (string.gsub(list, '%%(%x%x)', char)) })
  end
end

-- It goes to the last list whose least priority it reaches; they are read from their other end.
function Hand.over(ws, queue, element)
  local id = match(element, '^%d+:(.*)$')
  local priority, payload = match(call('HGET', K.jobs(queue), id), '^%S+ %S+ (%S+) %S+ %S+ %S+\n(.*)$')
  local to
  for _, one in ipairs(Hand.lists) do
    if tonumber(priority) >= one[1] then to = one[2] end
  end
  call('LPUSH', to, payload)
  Drop.job(queue, element)
  if ws.expiring then Expiry.drop(ws, queue, priority, element) end
end
