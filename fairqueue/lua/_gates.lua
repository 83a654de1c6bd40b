-- COLD: a gate is a limit (or a pause) that many share inside a queue: of a task (/number) or of a group (@name).
--   gate -> block tat timer: why its branches are closed, its rate's arrival time, when it opens
Gates.known = {}

function Gates.of(key)
  local gate = Gates.known[key]
  if gate then return gate end
  local block, tat, timer = match(call('HGET', K.gates(), key) or '- 0 -', '^(%S+) (%S+) (%S+)$')
  gate = { key = key, block = block ~= '-' and block or nil, tat = tonumber(tat), timer = tonumber(timer) }
  gate.before = Gates.text_of(gate)
  Gates.known[key] = gate
  return gate
end

function Gates.text_of(gate)
  return (gate.block or '-') .. ' ' .. (gate.tat > now and num(gate.tat) or '0') .. ' ' .. (gate.timer and num(gate.timer) or '-')
end

function Gates.save(gate)
  local text = Gates.text_of(gate)
  if text == gate.before then return end
  if text == '- 0 -' then call('HDEL', K.gates(), gate.key) else call('HSET', K.gates(), gate.key, text) end
end

function Gates.used(key)
  return call('SCARD', K.slots_of_gate(key))
end

function Gates.limits(key)
  if key:sub(1, 1) == '@' then return Caps.of_group(key:sub(2)) end
  return Caps.of_task(key:sub(2))
end

function Gates.next_start(gate)
  local limits = Gates.limits(gate.key)
  if not limits or not limits.rate or gate.key:sub(1, 1) == '@' then return 0 end
  return Fair.next_start(gate.tat, limits.rate, limits.burst)
end

-- Why nothing may start behind this gate now.
function Gates.block_of(gate)
  local limits = Gates.limits(gate.key)
  if limits and limits.paused then return 'paused' end
  if Gates.next_start(gate) > now + 1e-9 then return 'rate' end
  if limits and limits.concurrency and Gates.used(gate.key) >= limits.concurrency then return 'parked' end
end

-- A slot was taken or freed, or time has passed: the gate's branches close or open.
function Gates.look(key)
  local gate = Gates.of(key)
  local before = gate.block
  gate.block = Gates.block_of(gate)
  if gate.block and call('EXISTS', K.branches_of_gate(key)) == 0 then gate.block = nil end
  Gates.arm(gate)
  if gate.block ~= before then Gates.settle(key) end
  return gate.block
end

function Gates.settle(key)
  local ids = call('SMEMBERS', K.branches_of_gate(key))
  table.sort(ids)
  for _, id in ipairs(ids) do
    if Nodes.known[id] or call('HEXISTS', K.branches(), id) == 1 then Climb.up(Branches.at(id)) end
  end
end

-- A gate that its rate has closed opens at a known time.
function Gates.arm(gate)
  local at = gate.block == 'rate' and Gates.next_start(gate) or nil
  if at == gate.timer then return end
  gate.timer = at
  if not at then return call('ZREM', K.timer(), gate.key) end
  call('ZADD', K.timer(), num(at), gate.key)
  for _, id in ipairs(call('SMEMBERS', K.branches_of_gate(gate.key))) do Wake.due[match(id, '^[^/@]+')] = at end
end
