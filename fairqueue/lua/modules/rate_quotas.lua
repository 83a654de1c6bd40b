-- The rate of a task over several shards, of which each has units of the burst. A unit is a
-- bucket for one token and fills in burst / rate seconds; those of a shard are one bucket. No move
-- makes a token: units come empty, or with tokens that were taken elsewhere.
--   quotas: rate:task:number -> units epoch burst tat
--   burst: of what these units are a part; tat: of the task here when they were set

-- What a task has here: its units, the tokens in them, for how long a unit fills, and as text
-- `fills tokens has_started`, the last since the units were set. nil: it has no rate over shards.
function RateQuotas.of(number)
  local rate = Limits.stored_number('whole_rate', 'task', number)
  if not rate then return nil end
  local whole = Limits.stored_whole('rate', 'task', number)
  local text = call('HGET', K.quotas(), 'rate:task:' .. number)
  local own = { units = Limits.units_in(text or '', whole), fills = whole / rate }
  local tat = SharedLimitRecords.of('/' .. number).tat
  own.tokens = own.units - max(0, tat - now) * own.units / own.fills
  local has_started = tat > (tonumber(match(text or '', '(%S+)$')) or 0) + 1e-6
  own.text = num(own.fills) .. ' ' .. num(own.tokens) .. (has_started and ' 1' or ' 0')
  return own
end

-- Set its units and give them tokens. Return those that are left over: they do not fit any more.
function RateQuotas.set(number, units, epoch, burst, given)
  local shared, own = SharedLimitRecords.of('/' .. number), RateQuotas.of(number)
  local text, left = concat({ int(units), epoch, int(burst) }, ' '), 0
  if own then
    local whole = Limits.stored_whole('rate', 'task', number)
    local fit = Limits.units_in(text, whole)
    local kept = min(own.tokens, fit)
    left = max(0, own.tokens - kept)
    shared.tat = fit > 0 and now + (fit - min(fit, kept + given)) * own.fills / fit or 0
  end
  call('HSET', K.quotas(), 'rate:task:' .. number, text .. ' ' .. num(max(now, shared.tat)))
  return left
end
