-- COLD: what became of a job's starts, in its record.
-- Job record: workspace task priority deliveries history published[/expires]\npayload
--   history: 0, or 1 + times turned away, then each start that counts: 1,fence:owner:claimed:ended:seconds:how,...
local STARTS_KEPT = 16

function History.after(history, l, how, seconds)
  if history == '0' then history = '1' end
  if not how then return history end
  if how == 'turned_away' then return int(match(history, '^%d+') + 1) .. match(history, '^%d+(.*)$') end
  local _, kept = string.gsub(history, ',', ',')
  if kept >= STARTS_KEPT then history = string.gsub(history, ',[^,]*', '', 1) end
  return history .. ',' .. concat({ l.fence, l.owner, l.claimed, now_text, num(seconds), how }, ':')
end

-- The job's record after a lease; how it ended is kept if its start counts.
function History.record_after(l, deliveries, how, seconds)
  local record = call('HGET', K.jobs(l.queue), l.id)
  local history, published, payload = match(record, '^%S+ %S+ %S+ %S+ (%S+) (%S+)\n(.*)$')
  history = History.after(history, l, how, seconds)
  return concat({ l.workspace, l.task, l.priority, int(deliveries), history, published }, ' ') .. '\n' .. payload
end
