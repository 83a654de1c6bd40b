-- What time alone brings: expired leases, due timers, and a changed default reaching everybody.
local SWEEP_MOST = 32

local function reap(max_deliveries)
  local fences = call('ZRANGEBYSCORE', K.expiry(), '-inf', num(now), 'LIMIT', 0, SWEEP_MOST)
  for _, fence in ipairs(fences) do expire(fence, max_deliveries) end
  return #fences
end

local function fire_timers()
  local names = call('ZRANGEBYSCORE', K.timer(), '-inf', num(now), 'LIMIT', 0, SWEEP_MOST)
  local fired = 0
  for _, name in ipairs(names) do
    local ws = workspace(name)
    if fired < SWEEP_MOST then
      fired = fired + fire(ws, SWEEP_MOST - fired)
      settle(ws)
    end
  end
  return fired
end

-- A changed default concerns every workspace; some are settled in each call until all are.
local function drain_change()
  if load_meta().drain == '' then return end
  local cursor, fields = unpack(call('HSCAN', K.workspaces(), meta.drain, 'COUNT', SWEEP_MOST))
  for i = 1, #fields, 2 do settle(workspace(fields[i])) end
  meta.drain = cursor == '0' and '' or cursor
end

local function sweep(lease_seconds, max_deliveries)
  local n = is_away(lease_seconds) and 0 or reap(max_deliveries)
  n = n + fire_timers()
  drain_change()
  return n
end
