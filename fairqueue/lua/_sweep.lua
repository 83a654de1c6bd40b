-- What time alone brings: expired leases, due timers, and a changed default reaching everybody.
Sweep.MOST = 32

-- Note that a script ran, and return which leases may be reaped: those that ended by then.
-- After the store was away nobody could renew, so nothing is reaped for one lease. A gap of half
-- a lease tells it: idle claimers poll more often, and a lease renewed by thirds outlives it. What
-- had ended a lease before the gap is not spared again, else who calls rarely would never reap.
function Sweep.reapable_until(lease_seconds)
  local meta = Meta.load()
  local beat = tonumber(meta.beat)
  meta.beat = now_text
  if beat > 0 and now - beat > lease_seconds / 2 then
    meta.grace, meta.spared = num(now + lease_seconds), num(beat - lease_seconds)
  end
  return now < tonumber(meta.grace) and meta.spared or now_text
end

function Sweep.reap(until_then, max_deliveries)
  local fences = call('ZRANGEBYSCORE', K.expiry(), '-inf', until_then, 'LIMIT', 0, Sweep.MOST)
  -- Each goes to the head of its lane: the last one first, so that they stand as they were started.
  table.sort(fences, function(a, b) return tonumber(a) > tonumber(b) end)
  for _, fence in ipairs(fences) do Return.expire(fence, max_deliveries) end
  return #fences
end

function Sweep.fire_timers()
  local names = call('ZRANGEBYSCORE', K.timer(), '-inf', now_text, 'LIMIT', 0, Sweep.MOST)
  local fired = 0
  for _, name in ipairs(names) do
    if match(name, '^[/@]') then
      Gates.look(name)
    elseif fired < Sweep.MOST then
      local ws = Workspaces.of(name)
      fired = fired + Timer.fire(ws, Sweep.MOST - fired)
      Settle.workspace(ws)
    end
  end
  return fired
end

-- A changed default concerns every workspace; some are settled in each call until all are.
function Sweep.drain_change()
  local meta = Meta.load()
  if meta.drain == '-' then return end
  local cursor, fields = unpack(call('HSCAN', K.workspaces(), meta.drain, 'COUNT', Sweep.MOST))
  local names = {}
  for i = 1, #fields, 2 do insert(names, fields[i]) end
  table.sort(names)
  for _, name in ipairs(names) do Settle.workspace(Workspaces.of(name)) end
  meta.drain = cursor == '0' and '-' or cursor
end

function Sweep.all(lease_seconds, max_deliveries)
  local n = Sweep.reap(Sweep.reapable_until(lease_seconds), max_deliveries) + Sweep.fire_timers()
  Sweep.drain_change()
  return n
end
