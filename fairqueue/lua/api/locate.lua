-- Where there are jobs of this id, or retries of the message that has it.
-- They are looked for in the named workspace, or in a page of all workspaces.
-- Pages from dN on are of those with the oldest dead letters. An ended job is found in a
-- named workspace only.
-- ARGV now workspace queues id cursor count
-- ROUTE workspace MERGE gathered
-- RETURNS {cursor, "state job", ...}
-- state: waiting (or running), dead or ended; job: workspace/queue/id
-- WRITES nothing
local _, name, queues, id, cursor, count = unpack(ARGV)
local DEAD_MOST = 1000
local found, following_cursor, workspaces = {}, '0', { name }

local function add(state, known_by)
  insert(found, state .. ' ' .. known_by)
end

local from = tonumber(match(cursor, '^d(%d+)$'))
if from then
  workspaces = call('ZRANGE', K.dead_workspaces(), from, from + count - 1)
  local is_over = #workspaces < tonumber(count) or from + count >= DEAD_MOST
  following_cursor = is_over and '0' or format('d%d', from + count)
elseif name == '' then
  local page
  following_cursor, page = unpack(call('HSCAN', K.workspaces(), cursor, 'COUNT', count))
  workspaces = {}
  for i = 1, #page, 2 do workspaces[(i + 1) / 2] = page[i] end
  if following_cursor == '0' then following_cursor = 'd0' end
end

local retries, has_dead = {}, {}
for i, of in ipairs(workspaces) do
  retries[i] = Enqueue.retry_with(of, id)
  has_dead[i] = name == '' and call('EXISTS', K.dead_letters_by_age(of)) == 1
end
-- A dead job of a named workspace is found below, also if its queue is not in use any more.
local function look_at(i, known_by, is_there)
  if is_there then add('waiting', known_by)
  elseif name ~= '' and Shard.has_ended(known_by) then add('ended', known_by) end
  if has_dead[i] and call('ZSCORE', K.dead_letters_by_age(workspaces[i]), known_by) then
    add('dead', known_by)
  end
end

for queue in gmatch(queues, '%S+') do
  local ids, there = {}, {}
  for i, of in ipairs(workspaces) do ids[i] = concat({ of, queue, id }, '/') end
  if not from and ids[1] then there = call('HMGET', K.jobs(queue), unpack(ids)) end
  for i, known_by in ipairs(ids) do
    look_at(i, known_by, there[i])
    local retry = retries[i]
    if retry and Jobs.queue_of(retry) == queue then
      look_at(i, retry, not from and call('HEXISTS', K.jobs(queue), retry) == 1)
    end
  end
end
if name ~= '' then
  for _, known_by in ipairs(DeadLetters.named(name, id)) do add('dead', known_by) end
end
table.sort(found)
return { following_cursor, unpack(found) }
