-- Where there are jobs of this id, or retries of the message that has it.
-- They are looked for in the named workspace, or in a page of all workspaces.
-- Pages from dN on are of those with the oldest dead letters. An ended job is found in a
-- named workspace only.
-- ARGV now workspace queues id cursor count
-- ROUTE workspace MERGE gathered
-- RETURNS {cursor, names, "state job", ...}: of the workspaces that were asked, and what was found:
-- waiting (or running), dead or ended, and workspace/queue/id
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
local is_any, by_framework = #workspaces > 0, {}
for i, of in ipairs(workspaces) do by_framework[i] = of .. '::' .. id end
-- The places by queue: what has this id, and retries of the message that has it.
local places = {}
for queue in gmatch(queues, '%S+') do
  local ids, behind = {}, '/' .. queue .. '/' .. id
  for i, of in ipairs(workspaces) do ids[i] = of .. behind end
  places[queue] = ids
end
local is_here = is_any and not from -- a job has its workspace's record
local retries = is_any and call('HMGET', K.unique(), unpack(by_framework)) or {}
for i, held in ipairs(retries) do
  retries[i] = held and match(held, '^%S+ (%S+)') or false
  local its = retries[i] and places[Jobs.queue_of(retries[i])]
  if its and is_here then insert(its, retries[i]) end
end
local died = is_any and call('ZMSCORE', K.dead_workspaces(), unpack(workspaces)) or {}

local function add_dead(i)
  local ids = { retries[i] or nil }
  for _, its in pairs(places) do insert(ids, its[i]) end
  for n, at in ipairs(call('ZMSCORE', K.dead_letters_by_age(workspaces[i]), unpack(ids))) do
    if at then add('dead', ids[n]) end
  end
end

for queue, ids in pairs(places) do
  local records = is_here and call('HMGET', K.jobs(queue), unpack(ids)) or {}
  for i = 1, #records do
    if records[i] then add('waiting', ids[i])
    elseif name ~= '' and Shard.has_ended(ids[i]) then add('ended', ids[i]) end
  end
end
if name ~= '' then
  for _, known_by in ipairs(DeadLetters.named(name, id)) do add('dead', known_by) end
else
  for i = 1, #workspaces do
    if died[i] then add_dead(i) end
  end
end
table.sort(found)
return { following_cursor, concat(workspaces, ' '), unpack(found) }
