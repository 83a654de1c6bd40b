-- The records that a script reads once and writes once: workspaces and nodes. Numbers stay text
-- until they are needed: to format one costs as much as a command. A record that cannot be read is
-- set aside, and its place starts again. workspace_records.lua has the form of a workspace's.
--
-- Node of a queue: virtual_time max_stride highest least_debt last_start start_interval last_fence,
--     packed; [~resumed][/unused]
--   highest: finish tag that was held back or busy here; least_debt: none here is in debt below it;
--   last_fence: of its last dispatch; resumed: when a pause ended; unused: see rebuild_pages.lua
-- Inner node, of a task with a limit or of a group: queue/task, queue@group or queue/task@group
--   virtual_time max_stride highest weight total members held share state since tag finish
--   arrival cost
-- Among its siblings an inner node counts as one flow. That of a task weighs as much as its members
-- that are ready or busy (total, in units), that of a group as much as the group.
--   held: members that a limit or a rate holds back; at_task_limit: some, and no other is ready
Records.NO_DEBT = NUMBERS_END -- above every tag
local MANY_FLOWS = 4000 -- as long is the record of a workspace which has many of them
local WORKSPACE = '^([^|]*)|([^|]*)|(.*)$'
local WORKSPACE_HEAD = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ?(%S*)$'
local PLAIN_HEAD = '1 0 0 0 - -' -- most have neither weight, rate, capacity nor anything scheduled
local QUEUE_NODE, QUEUE_MARKS = '<ddddddd', '^~?([%d.]*)/?(%S*)$' -- the latter behind 56 bytes
local INNER_NODE = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) '
  .. '(%S+)$'

-- Read flows from their text into a list; of many, none reads the node above it.
function Records.add_flows(ws, text, flows, are_many)
  for lane_key, state, since, tag, finish, arrival, cost, lanes, holes in
    gmatch(text, ';(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ([^; ]*)([^;]*)') do
    local flow = { lane_key = lane_key, queue = lane_key, node = lane_key, state = state,
      since = since, tag = tag, finish_tag = finish, arrival = arrival, cost = cost, lanes = lanes }
    if arrival == '-' then flow.arrival = nil end
    if finish == '-' then flow.finish_tag = nil end
    if state == 'reserved' then flow.state, flow.reserved = 'ready', true end
    if holes ~= '' then flow.holes = WorkspaceRecords.read_holes(holes) end
    insert(flows, flow)
    if ws.move then WorkspaceRecords.read_mark(flow) end
    local may_be_inner = ws.parent or ws.move or find(lane_key, '/', 1, true)
    if may_be_inner then Records.attach(ws, flow, are_many) end
  end
end

function Records.read_head(ws, head)
  local scheduled, timer, parent
  ws.weight, ws.tat, ws.last_start, ws.start_interval, scheduled, timer, parent =
    match(head, WORKSPACE_HEAD)
  if parent and parent ~= '' then WorkspaceRecords.read_parent(ws, parent) end
  local first, expiring = match(scheduled or '-', '^([^/]+)/?(.*)$')
  ws.scheduled, ws.expiring, ws.timer = tonumber(first), tonumber(expiring), tonumber(timer)
end

-- raw: false, or a record that cannot be read: then nothing else may lead to its lanes, and neither
-- where one that is paused has lost its record.
function Records.new_workspace(name, raw)
  if raw then Shard.set_aside('workspace', name, raw) end
  local ws = { name = name, raw = raw, flows = {}, duration_estimates = '', weight = '1', tat = '0',
    last_start = '0', start_interval = '0', limits = false, dirty = false } -- at its full size
  local limits = Limits.of_workspace(ws)
  ws.parent = limits.parent -- also where its record is lost: its leases have slots of the group
  ws.is_unread = raw or limits.paused
  return ws
end

-- Of a long record only those flows are read that the call needs (Records.flow); the others stay in
-- ws.others as text. raw: the record, or false, if the call knows it already.
function Records.workspace(name, raw)
  local ws = S.workspaces[name]
  if ws then return ws end
  if raw == nil then raw = call('HGET', K.workspaces(), name) end
  ws = raw and WorkspaceRecords.plain(name, raw)
  S.workspaces[name] = ws or nil
  if ws then return ws end
  local are_many = raw and #raw > MANY_FLOWS
  local head, flows, estimates = match(not are_many and raw or '', WORKSPACE)
  if are_many then head, flows, estimates = WorkspaceRecords.parts(raw) end
  if head then
    ws = { name = name, raw = raw, flows = {}, duration_estimates = estimates, weight = '1',
      tat = '0', last_start = '0', start_interval = '0', others = are_many and flows or nil }
    if head ~= PLAIN_HEAD then Records.read_head(ws, head) end
    if ws.weight and not are_many then Records.add_flows(ws, flows, ws.flows) end
  end
  if not ws or not ws.weight then ws = Records.new_workspace(name, raw) end
  S.workspaces[name] = ws
  return ws
end

-- Return also whether it is new. is_known: one that is not there is not made.
function Records.flow(ws, lane_key, is_known)
  for i = 1, #ws.flows do
    if ws.flows[i].lane_key == lane_key then return ws.flows[i] end
  end
  if ws.others and Records.read_flow(ws, lane_key) then return ws.flows[#ws.flows] end
  if is_known then return nil end
  local flow = { lane_key = lane_key, queue = lane_key, node = lane_key, state = 'idle',
    since = now_text, tag = '0', cost = '0', lanes = '', first_task = false }
  if ws.parent or find(lane_key, '/', 1, true) then Records.join_node(ws, flow) end
  insert(ws.flows, flow) -- last: what may fail has been done
  return flow, true
end

-- All that have changed: up to 50 in one command.
function Records.save_workspaces()
  local fields, n = { nil, nil, nil, nil }, 0
  for name, ws in next, S.workspaces do
    if not ws.dirty or ws.is_unread or n >= 100 or not (ws.flows[1] or ws.others or ws.timer) then
      Records.save_workspace(ws)
    else
      fields[n + 1], fields[n + 2], n = name, WorkspaceRecords.text(ws), n + 2
    end
  end
  if n > 0 then call('HSET', K.workspaces(), unpack(fields)) end
end

-- A workspace of which nothing is left leaves no record.
function Records.save_workspace(ws)
  if not ws.dirty then return end
  if ws.is_unread then return Records.find_later(ws) end
  if #ws.flows > 0 or ws.others or ws.timer then
    call('HSET', K.workspaces(), ws.name, WorkspaceRecords.text(ws))
  elseif ws.raw then
    call('HDEL', K.workspaces(), ws.name)
  end
end

-- The node of a queue. One that is new is not stored until it changes or is registered.
function Records.node(queue)
  local node = S.nodes[queue]
  if node then return node end
  if find(queue, '[/@]') then return Records.inner_node(queue) end
  local text = Shard.field('queue:' .. queue)
  local virtual_time, max_stride, highest, least_debt, last_start, start_interval, last_fence =
    unpacked(QUEUE_NODE, text)
  if virtual_time and not (virtual_time >= 0 and virtual_time + max_stride + highest + least_debt
    + last_start + start_interval + last_fence < 4 * NUMBERS_END) then virtual_time = nil end
  local resumed, unused
  if virtual_time and #text > 56 then resumed, unused = match(text, QUEUE_MARKS, 57) end
  if not virtual_time then
    if text then Shard.set_aside('queue', queue, text) end
    virtual_time, max_stride, highest, least_debt = 0, 0, 0, 0
    last_start, start_interval, last_fence = 0, 0, 0
  end
  node = { id = queue, queue = queue, lane_key = queue, is_new = not text,
    virtual_time = virtual_time, max_stride = max_stride, highest = highest,
    least_debt = least_debt, last_start = last_start, start_interval = start_interval,
    last_fence = last_fence, resumed = resumed or '' } -- and its limits: 16 fields
  if unused and unused ~= '' then node.unused = unused end
  S.nodes[queue] = node
  return node
end

-- The queue is known from now on, also while nothing waits on it; and it is not unused, if the
-- rebuild has marked it so.
function Records.register(queue)
  local node = Records.node(queue)
  if node.is_new or node.unused then node.unused, node.dirty = nil, true end
  return node
end

-- The same where a claim has found nothing there.
function Records.note_claim(queue)
  local text = not S.nodes[queue] and Shard.field('queue:' .. queue)
  if not text or find(text, '/', 57, true) then Records.register(queue) end
end

function Records.save_node(node)
  if not node.dirty then return end
  if node.up then return Records.save_inner_node(node) end
  local text = struct.pack(QUEUE_NODE, node.virtual_time, node.max_stride, node.highest,
    node.least_debt, node.last_start + 0, node.start_interval + 0, node.last_fence + 0)
  if node.resumed ~= '' then text = text .. '~' .. node.resumed end
  if node.unused then text = text .. '/' .. node.unused end
  if node.is_new then Shard.remove('queues') end
  Shard.put('queue:' .. node.queue, text)
end

-- Write what the script has changed, and before that what it could not read.
function Records.save()
  if S.set_aside[1] or meta_unread then Shard.save_aside() end
  Records.save_workspaces()
  for _, node in next, S.nodes do Records.save_node(node) end
  for _, shared in next, S.shared_limits do SharedLimitRecords.save(shared) end
  Shard.save()
end

-- One of many flows is read; nil: it is none of them.
function Records.read_flow(ws, lane_key)
  local text = WorkspaceRecords.cut(ws.others, lane_key)
  if ws.others.left == 0 then ws.others = nil end
  if text then Records.add_flows(ws, text, ws.flows) end
  return text
end

-- What its record says, if there is one, is not what stands. So it goes, and the workspace is found
-- by its keys when its timer goes off. Each by itself: the other may fail.
function Records.find_later(ws)
  ws.timer, ws.is_unread, ws.dirty = nil, true, true
  local done, said = pcall(call, 'HDEL', K.workspaces(), ws.name)
  Shard.expect(ws.waits_until or now)
  call('ZADD', K.timer(), ws.waits_until or now_text, ws.name)
  if not done then error(said, 0) end
end

-- One that this script has forgotten starts again, as the same table: flows may still be in it.
function Records.inner_node(id)
  local known = S.nodes[id]
  if known and not known.gone then return known end
  local queue, task, group = match(id, '^([^/@]+)([^@]*)(.*)$')
  local text = call('HGET', K.inner_nodes(), id)
  if text and not match(text, INNER_NODE) then
    Shard.set_aside('node', id, text)
    text = nil
  end
  local b = known or { id = id, name = id }
  b.queue, b.lane_key, b.reserved = queue, queue .. task, nil
  b.limit_key = group ~= '' and group or task
  local up = group == '' and queue or queue .. task
  b.up = up == queue and Records.register(queue) or Records.inner_node(up)
  b.node = up
  local virtual_time, max_stride, highest, weight, total, members, held, share, state, since, tag,
    finish, arrival, cost =
    match(text or ('0 0 0 1 0 0 0 0 idle ' .. now_text .. ' 0 - - 0'), INNER_NODE)
  b.virtual_time, b.max_stride = tonumber(virtual_time), tonumber(max_stride)
  b.highest, b.finish_tag = tonumber(highest), finish ~= '-' and finish or nil
  b.weight, b.share = tonumber(weight), tonumber(share)
  b.total, b.members, b.held = tonumber(total), tonumber(members), tonumber(held)
  b.state, b.since, b.tag, b.cost = state, since, tag, cost
  b.was_held = Fairness.is_held(state)
  b.arrival = arrival ~= '-' and arrival or nil
  if b.state == 'reserved' then b.state, b.reserved = 'ready', true end
  if not text then Records.create_inner_node(b) end
  S.nodes[id], b.gone = b, nil -- last: what may fail has been done
  return b
end

function Records.create_inner_node(b)
  call('SADD', K.nodes_of_shared_limit(b.limit_key), b.id)
  Records.add_members(b.up, 1)
  b.dirty = true
end

function Records.save_inner_node(b)
  if b.gone then return end
  local weights = { int(b.virtual_time), int(b.max_stride), int(b.highest), num(b.weight),
    format('%.0f', b.total), int(b.members), int(b.held), format('%.0f', b.share) }
  local stand = { b.reserved and 'reserved' or b.state, b.since, b.tag, b.finish_tag or '-',
    b.arrival or '-', b.cost }
  call('HSET', K.inner_nodes(), b.id, concat(weights, ' ') .. ' ' .. concat(stand, ' '))
end

-- n more flows stand in this node. The members of a queue's own node are not counted.
function Records.add_members(node, n)
  if node.up then node.members, node.dirty = node.members + n, true end
end

-- A flow that stands in an inner node, if it does; the node is created if there is none. Where many
-- flows are read, none reads it before it is asked for.
function Records.attach(ws, flow, is_one_of_many)
  local group, lane_key = ws.parent, flow.lane_key
  if flow.is_behind then group = ws.move.group ~= '' and ws.move.group or nil end
  if find(lane_key, '/', 1, true) then flow.queue, flow.task = match(lane_key, '^([^/]+)/(.+)$') end
  if not (group or flow.task) then return end
  if group then flow.node = lane_key .. '@' .. group else flow.node = lane_key end
  flow.share, flow.was_held = Records.share_of(ws, flow), Fairness.is_held(flow.state)
  if is_one_of_many then Records.attach_later(flow) else flow.up = Records.inner_node(flow.node) end
end

-- Fields that are false, and not nil, are not looked for above.
function Records.attach_later(flow)
  S.flow_of_many = S.flow_of_many or { __index = Records.up_of }
  flow.task, flow.arrival = flow.task or false, flow.arrival or false
  flow.is_behind, flow.reserved = flow.is_behind or false, flow.reserved or false
  flow.holes = flow.holes or false
  setmetatable(flow, S.flow_of_many)
end

-- The node above a flow, when it is asked for.
function Records.up_of(flow, name)
  if name ~= 'up' then return nil end
  local up = Records.inner_node(flow.node)
  setmetatable(flow, nil)
  flow.up = up
  return up
end

-- It counts there from now on.
function Records.join_node(ws, flow)
  Records.attach(ws, flow)
  Records.add_members(flow.up, 1)
  ws.dirty = true
end

-- The inner node of a flow was forgotten by this script, since it did not count this flow.
function Records.rejoin(flow)
  Records.add_members(Records.inner_node(flow.node), 1)
  flow.share, flow.was_held = 0, false
end

-- What a flow adds to the weight of its inner node.
function Records.share_of(entity, flow)
  local counts = flow.state == 'ready' or flow.state == 'busy'
  if counts and entity.weight == '1' then return 1000000 end
  return counts and Fairness.units_of(tonumber(entity.weight)) or 0
end

-- It was settled: what it adds to its inner node may have changed.
function Records.update_share(entity, flow, gone)
  local share = gone and 0 or Records.share_of(entity, flow)
  local is_held, node = not gone and Fairness.is_held(flow.state), flow.up
  if node.up then
    node.total, node.dirty = node.total + share - flow.share, true
    node.held = node.held + (is_held and 1 or 0) - (flow.was_held and 1 or 0)
  end
  flow.share, flow.was_held = share, is_held
end
