-- One page of what is paused or draining, since when, by which process, and how many jobs wait.
-- ARGV now cursor count
-- ROUTE all MERGE rows scope,name since
-- RETURNS {now, cursor, {scope, name, how, since, waiting, "time process"}, ...}; the jobs of a
-- task are not counted
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local function waiting_of(scope, name)
  if scope == 'workspace' then return Lanes.waiting_of(Records.workspace(name)) end
  return scope == 'queue' and Lanes.depth_of(name) or ''
end

local function row(field, text)
  local scope, name = match(field, '^pause:(%a+):(.*)$')
  local how, since = match(text, '^(%a+)=(%S+)')
  local stamp = call('HGET', K.stored_by(), field) or ''
  return { scope, name, how, since, waiting_of(scope, name), stamp }
end

local following_cursor, fields =
  unpack(call('SSCAN', K.limits_with('pauses'), cursor, 'COUNT', count))
local rows = { now_text, following_cursor }
for _, field in ipairs(fields) do
  local text = call('HGET', K.limits(), field)
  if text then insert(rows, row(field, text)) end
end
return rows
