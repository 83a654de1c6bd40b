-- One page of the tasks: how long each takes on average, and its limits.
-- ARGV now cursor count
-- ROUTE all MERGE pages
-- RETURNS {now, cursor, row, ...}
-- row: "task number average concurrency workspace_concurrency rate burst workspace_rate
-- workspace_burst paused draining"
-- WRITES nothing
local _, cursor, count = unpack(ARGV)
local LIMITS = { 'concurrency', 'workspace_concurrency', 'rate', 'burst', 'workspace_rate',
  'workspace_burst', 'paused' }

local function row(name, number)
  local limits = Limits.any('tasks') and Limits.of_task(number) or {}
  local own, texts = limits.would or limits, {}
  for i, what in ipairs(LIMITS) do
    local limit = what == 'paused' and limits[what] or Limits.whole(own, what)
    texts[i] = limit and num(limit) or '-'
  end
  if not own.rate then texts[4] = '-' end -- a burst is there without a rate, by default
  local hold = Limits.any('tasks') and Limits.texts('pause:task:' .. number)[1] or ''
  local average = call('HGET', K.duration_estimates(), number) or '-'
  return concat({ name, number, average, concat(texts, ' '), match(hold, 'draining=(%S+)') or '-' },
    ' ')
end

local following_cursor, found = unpack(call('HSCAN', K.tasks(), cursor, 'COUNT', count))
local rows = { now_text, following_cursor }
for i = 1, #found, 2 do
  if not match(found[i], '^[#!]') then insert(rows, row(found[i], found[i + 1])) end
end
return rows
