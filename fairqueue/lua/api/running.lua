-- One page of the running jobs of a workspace, else of a queue, else of all.
-- ARGV now workspace queue task owners longer_than before most payloads cursor count
-- ROUTE workspace MERGE oldest
-- RETURNS {now, cursor, matched, row, ...}
-- Rows: those that match, and of them only fences below `before`, at most `most` of a page, the
-- oldest ones; the number is of all that match. A job may come more than once. row: "fence queue id
-- workspace task priority claimed owner deliveries early cancelled length ends [progress]", a line
-- break, and the payload if that is at most `payloads` bytes
-- progress: see state/running.lua
-- WRITES nothing
local _, name, queue, task, owners, longer_than, before, most, payloads, cursor,
  count = unpack(ARGV)

local until_then = longer_than ~= '' and now - longer_than
local is_filtered = queue ~= '' or task ~= '' or owners ~= '' or until_then
local is_owner, rows, matched = {}, { now_text, '', 0 }, 0
for owner in gmatch(owners, '%S+') do is_owner[owner] = true end
before, most = tonumber(before) or math.huge, tonumber(most)
local matching = {}

local function matches(l)
  return (queue == '' or l.queue == queue) and (task == '' or l.task == task)
    and (owners == '' or is_owner[l.owner])
    and (not until_then or tonumber(l.claimed) <= until_then)
end

local function add(fence, text)
  local l = is_filtered and LeaseRecords.parse(fence, text)
  if is_filtered and not (l and matches(l)) then return end
  matched = matched + 1
  if tonumber(fence) < before then insert(matching, { fence = fence, text = text }) end
end

local function is_older(one, other)
  return tonumber(one.fence) < tonumber(other.fence)
end

local function payload_of(l)
  local record = payloads ~= '0' and Jobs.read(l.queue, l.id)
  return record and '\n' .. Jobs.small_payload(record, payloads) or ''
end

-- The rows of a page: to read a record costs more than to pass it.
local function write_rows()
  table.sort(matching, is_older)
  local fences = {}
  for i = 1, min(most, #matching) do fences[i] = matching[i].fence end
  local ends = #fences > 0 and call('ZMSCORE', K.expiry(), unpack(fences))
  local reports = #fences > 0 and Running.progress_of(fences)
  for i = 1, #fences do
    local l = LeaseRecords.parse(fences[i], matching[i].text)
    if l then
      insert(rows, concat({ l.fence, l.queue, l.id, l.workspace, l.task, l.priority, l.claimed,
        l.owner, int(l.deliveries), l.early and 1 or 0, l.cancelled and 1 or 0, l.length,
        ends[i] and num(Fairness.seconds(ends[i])) or now_text, reports[i] or nil }, ' ')
        .. payload_of(l))
    end
  end
end

local function add_all(fences)
  local texts = #fences > 0 and call('HMGET', K.leases(), unpack(fences)) or {}
  for i, fence in ipairs(fences) do
    if texts[i] then add(fence, texts[i]) end
  end
end

local function of_workspace()
  local following_cursor, fences =
    unpack(call('SSCAN', K.slots(name), cursor, 'COUNT', count))
  add_all(fences)
  return following_cursor
end

local function of_queue()
  local following_cursor, found =
    unpack(call('HSCAN', K.slots_of_queue(queue), cursor, 'COUNT', count))
  local fences = {}
  for i = 2, #found, 2 do insert(fences, found[i]) end
  add_all(fences)
  return following_cursor
end

local function of_all()
  local following_cursor, found = unpack(call('HSCAN', K.leases(), cursor, 'COUNT', count))
  for i = 1, #found, 2 do add(found[i], found[i + 1]) end
  return following_cursor
end

rows[2] = name ~= '' and of_workspace() or queue ~= '' and of_queue() or of_all()
rows[3] = matched
write_rows()
return rows
