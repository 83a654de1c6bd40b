-- One page of the queues: what is on each, its limits, and when a job of it started last.
-- ARGV now cursor count
-- ROUTE all MERGE rows queue
-- RETURNS {now, cursor, row, ...}
-- row: "queue waiting running runnable concurrency capacity pause last_fence"
-- WRITES nothing
local _, cursor, count = unpack(ARGV)

local function row(queue)
  local node = Records.node(queue)
  local limits = Limits.of_queue(node)
  local own, texts = limits.would or limits, {}
  for i, limit in ipairs({ 'concurrency', 'capacity' }) do
    local most = Limits.whole(own, limit)
    texts[i] = most and num(most) or '-'
  end
  texts[3] = limits.paused and 'paused' or limits.draining and 'draining' or '-'
  return concat({ queue, int(Lanes.depth_of(queue)), call('HLEN', K.slots_of_queue(queue)),
    call('ZCARD', K.ready(queue)), concat(texts, ' '), int(node.last_fence) }, ' ')
end

local following_cursor, found = unpack(call('HSCAN', K.shard(), cursor, 'MATCH', 'queue:*',
  'COUNT', count))
local rows = { now_text, following_cursor }
for i = 1, #found, 2 do insert(rows, row(found[i]:sub(7))) end
return rows
