-- One page of the leases: what each occupies, and how long its job is expected to take.
-- ARGV now cursor count
-- ROUTE all MERGE slots
-- RETURNS {now, cursor, total, row, ...}
-- Rows: a lease may come more than once; total: of all leases
-- row: "fence queue owner workspace group task elapsed expected"; group: -, if there is none;
-- expected: worker-seconds of its task there, else in all workspaces; -: not measured
-- WRITES nothing
local _, cursor, count = unpack(ARGV)
local averages = {}

local function average_of(task)
  averages[task] = averages[task] or match(Shard.field('task:' .. task) or '-', '^%S+')
  return averages[task]
end

local following_cursor, found = unpack(call('HSCAN', K.leases(), cursor, 'COUNT', count))
local rows = { now_text, following_cursor, call('HLEN', K.leases()) }
for i = 1, #found, 2 do
  local l = LeaseRecords.parse(found[i], found[i + 1])
  if l then
    local ws = Records.workspace(l.workspace)
    local expected = Order.own_estimate(ws, l.task) or tonumber(average_of(l.task))
    insert(rows, concat({ l.fence, l.queue, l.owner, l.workspace, ws.parent or '-', l.task,
      num(max(0, now - l.claimed)), expected and num(Fairness.seconds(expected)) or '-' }, ' '))
  end
end
return rows
