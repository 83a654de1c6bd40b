-- Limits and pauses that many workspaces share: of a task (/number) or of a group (@name), over all
-- queues. They close inner nodes; a lease holds a slot of each that applies to it.
local FEW_LEASES = 64 -- leases that are indexed at once
local SLOTS_AT_ONCE = 1000 -- slots that one call moves
local SLOTS_OF_A_STEP = 32 -- slots that are moved in one step of a call
local NODES_AT_ONCE = 16 -- nodes that one call settles where a limit opens or closes

function SharedLimits.limits_of(key)
  if key:sub(1, 1) == '@' then return Limits.of_group(key:sub(2)) end
  return Limits.of_task(key:sub(2))
end

function SharedLimits.next_start(shared)
  local limits = SharedLimits.limits_of(shared.key)
  if not limits or shared.key:sub(1, 1) == '@' then return 0 end
  if limits.whole_concurrency or limits.whole_rate then return shared.tat end -- see permits.lua
  if not limits.rate then return 0 end
  return Fairness.next_start(shared.tat, limits.rate, limits.burst)
end

-- Why nothing may start in its nodes now.
function SharedLimits.block_of(shared)
  local limits = SharedLimits.limits_of(shared.key)
  if limits and limits.paused then return 'paused' end
  if SharedLimits.next_start(shared) > now + 1e-9 then
    return limits.whole_concurrency and 'at_limit' or 'rate'
  end
  local most = limits and limits.concurrency
  if most and call('SCARD', K.slots(shared.key)) >= most then return 'at_limit' end
end

-- A slot was taken or freed, or time has passed. Return the shared limit, and whether its nodes
-- must be settled.
function SharedLimits.refresh(key)
  local shared = SharedLimitRecords.of(key)
  local before, limits = shared.block, SharedLimits.limits_of(key)
  if limits and limits.rate then
    shared.tat = Fairness.tat_under(shared.tat, now, limits.rate, limits.burst)
  elseif limits and limits.whole_rate then -- until its turn at the home
    shared.tat = min(shared.tat, now + max(1, limits.shards / limits.whole_rate))
  end
  shared.block = SharedLimits.block_of(shared)
  if shared.block and call('EXISTS', K.nodes_of_shared_limit(key)) == 0 then shared.block = nil end
  SharedLimits.arm(shared)
  return shared, shared.block ~= before
end

-- One that its rate or its home has closed opens at a known time. One that walks goes on at once,
-- in its turn among the timers that are due.
function SharedLimits.arm(shared)
  local is_timed = shared.block == 'rate' or shared.block == 'at_limit'
  local at = is_timed and SharedLimits.next_start(shared) or nil
  if at and at <= now then at = nil end
  local is_due = shared.timer and shared.timer <= now and not shared.has_gone_on
  if shared.walk then at = is_due and shared.timer or now end
  if at == shared.timer then return end
  shared.timer = at
  if not at then return call('ZREM', K.timer(), shared.key) end
  Shard.expect(at)
  call('ZADD', K.timer(), num(at), shared.key)
  if shared.walk then return end
  for _, id in ipairs(call('SMEMBERS', K.nodes_of_shared_limit(shared.key))) do
    Wakeups.expect(match(id, '^[^/@]+'), at)
  end
end

-- The nodes to settle next, of one that has opened or closed. It may have thousands, so it walks
-- through them in the order of their names, some with each call, and the others stand as before
-- until then; no claim starts anything there, since it compares what it finds with the limit.
-- If it opens or closes meanwhile, it goes once round from where it is.
--   walk: from>upto  to the last node, and then from the first one up to this one
--         from<upto  up to this one, or to the last
function SharedLimits.next_nodes(shared, has_changed)
  local from, goes_round, upto = match(shared.walk or '<', '^([^<>]*)([<>])(.*)$')
  if has_changed and shared.walk then goes_round, upto = '>', from end
  local found, ids = {}, call('SMEMBERS', K.nodes_of_shared_limit(shared.key))
  table.sort(ids)
  repeat
    local is_last = goes_round == '<'
    for _, id in ipairs(ids) do
      if id > from and (not is_last or upto == '' or id <= upto) then
        if #found >= NODES_AT_ONCE then
          shared.walk = from .. goes_round .. upto
          return found
        end
        if call('EXISTS', K.ready(id)) == 1 then insert(found, id) end -- else it stands as before
        from = id
      end
    end
    from, goes_round = '', '<'
  until is_last
  shared.walk = nil
  return found
end

-- Whether these nodes are more than one call settles.
function SharedLimits.are_many(ids)
  return #ids > NODES_AT_ONCE
end

-- A lease holds slots of its task if the task has ever had a limit.
function SharedLimits.is_indexed(task)
  if not Limits.any('indexed') then return false end
  if S.indexed_tasks[task] == nil then
    S.indexed_tasks[task] = call('HEXISTS', K.indexed_tasks(), task) == 1
  end
  return S.indexed_tasks[task]
end

function SharedLimits.change_slots(change, l)
  call(change, K.slots('/' .. l.task), l.fence)
  call(change, K.slots(l.workspace .. '/' .. l.task), l.fence)
end

-- A lease takes or gives back its slots of shared limits: return those limits.
function SharedLimits.move(change, ws, l)
  local keys = {}
  if SharedLimits.is_indexed(l.task) then
    SharedLimits.change_slots(change, l)
    ws.stands = nil -- other flows of the task may have to follow, see follow.lua
    if Limits.of_task(l.task) then insert(keys, '/' .. l.task) end
  end
  if ws.parent then
    call(change, K.slots('@' .. ws.parent), l.fence)
    insert(keys, '@' .. ws.parent)
  end
  local move = ws.move
  if move and move.group ~= '' and (move.stage == '>' or change == 'SREM') then
    call(change, K.slots('@' .. move.group), l.fence)
    insert(keys, '@' .. move.group)
  end
  return keys
end

-- Leases of a workspace take or give back slots of the other group between which it moves. Return
-- whether all have; one that begins or ends meanwhile has done so by itself.
function SharedLimits.move_page(change, ws)
  local move, fences = ws.move
  if move.group == '' then return true end
  if Shard.tick_steps_left() < 1 then return false end
  move.cursor, fences = unpack(
    call('SSCAN', K.slots(ws.name), move.cursor, 'COUNT', SLOTS_AT_ONCE))
  if #fences > 0 then call(change, K.slots('@' .. move.group), unpack(fences)) end
  Shard.took_steps(math.ceil(#fences / SLOTS_OF_A_STEP))
  return move.cursor == '0'
end

-- A start counts for the rates of its task.
function SharedLimits.take(ws, l)
  local limits = Limits.of_task(l.task)
  if limits and limits.rate then
    local shared = SharedLimitRecords.of('/' .. l.task)
    shared.tat = Fairness.tat_after(shared.tat, now, limits.rate)
  end
  if limits then TaskRates.take(ws.name, l.task, limits) end
  return SharedLimits.move('SADD', ws, l)
end

function SharedLimits.give_back(ws, l)
  return SharedLimits.move('SREM', ws, l)
end

function SharedLimits.running(ws, flow)
  return call('SCARD', K.slots(ws.name .. '/' .. flow.task))
end

-- A task's limit or rate per workspace blocks that lane alone.
function SharedLimits.task_block(ws, flow)
  local limits = Limits.of_task(flow.task)
  if TaskRates.opens(ws.name, flow.task, limits) then return 'task_rate' end
  local most = limits and limits.workspace_concurrency
  return most and SharedLimits.running(ws, flow) >= most and 'at_task_limit' or nil
end

-- Before tasks get a limit, all of their leases must hold slots of them. Return the tasks of which
-- some may not; where few leases live, they get them now. From now on each new lease does.
function SharedLimits.not_indexed(tasks)
  local missing = {}
  for _, task in ipairs(tasks) do
    if call('HGET', K.indexed_tasks(), task) ~= 'all' then
      Limits.forget()
      call('HSET', K.indexed_tasks(), task, 'new')
      insert(missing, task)
    end
  end
  if #missing == 0 or call('HLEN', K.leases()) > FEW_LEASES then return missing end
  SharedLimits.index(call('HGETALL', K.leases()), missing)
  SharedLimits.all_indexed(missing)
  return {}
end

-- Give these leases, {fence, record, ...}, their slots of these tasks.
function SharedLimits.index(leases, tasks)
  local wanted = {}
  for _, task in ipairs(tasks) do wanted[task] = true end
  for i = 1, #leases, 2 do
    local l = LeaseRecords.parse(leases[i], leases[i + 1])
    if l and wanted[l.task] then SharedLimits.change_slots('SADD', l) end
  end
end

function SharedLimits.all_indexed(tasks)
  for _, task in ipairs(tasks) do call('HSET', K.indexed_tasks(), task, 'all') end
end
