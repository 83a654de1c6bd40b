-- One page of the tasks: how long each takes on average, and its limits.
-- ARGV now cursor count
-- ROUTE all MERGE rows task
-- RETURNS {now, cursor, row, ...}
-- row: "task average concurrency workspace_concurrency rate burst workspace_rate
-- workspace_burst pause"
-- WRITES nothing
local _, cursor, count = unpack(ARGV)
local LIMITS = { 'concurrency', 'workspace_concurrency', 'rate', 'burst', 'workspace_rate',
  'workspace_burst' }

local function row(name, average)
  local limits = Limits.of_task(name) or {}
  local own, texts = limits.would or limits, {}
  for i, what in ipairs(LIMITS) do
    local limit = Limits.whole(own, what)
    texts[i] = limit and num(limit) or '-'
  end
  if texts[3] == '-' then texts[4] = '-' end -- a burst is there without a rate, by default
  local hold = Limits.any('tasks') and Limits.text_of('pause:task:' .. name) or ''
  return concat({ name, average and num(Fairness.seconds(average)) or '-', concat(texts, ' '),
    match(hold, '^%a+') or '-' }, ' ')
end

local following_cursor, found = unpack(call('HSCAN', K.shard(), cursor, 'MATCH', 'task:*',
  'COUNT', count))
local rows = { now_text, following_cursor }
for i = 1, #found, 2 do
  insert(rows, row(found[i]:sub(6), Tasks.average(found[i + 1])))
end
return rows
