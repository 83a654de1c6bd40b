-- Writes what the script changed. A workspace of which nothing is left leaves no record.
local function text_of(ws)
  local flows, means = {}, {}
  for i, f in ipairs(ws.flows) do
    flows[i] = concat({ f.queue, f.state, num(f.since), num(f.tag), f.serial or '-', num(f.cost), f.lanes }, ' ')
  end
  for i, m in ipairs(ws.means) do means[i] = m.task .. '=' .. num(m.mean) end
  local head = concat({ num(ws.weight), num(ws.tat), num(ws.drained), num(ws.pace),
    ws.scheduled and num(ws.scheduled) or '-', ws.timer and num(ws.timer) or '-' }, ' ')
  return concat({ head, concat(flows, ';'), concat(means, ';') }, '|')
end

local function save_workspace(ws)
  local text = (#ws.flows > 0 or ws.timer) and text_of(ws) or false
  if text and text ~= ws.raw then call('HSET', K.workspaces(), ws.name, text) end
  if not text and ws.raw then call('HDEL', K.workspaces(), ws.name) end
end

local function save_meta()
  local changed = {}
  for _, field in ipairs(META) do
    if meta[field] ~= meta_was[field] then
      insert(changed, field)
      insert(changed, meta[field])
    end
  end
  if #changed > 0 then call('HSET', K.meta(), unpack(changed)) end
end

local function save()
  for _, ws in pairs(workspaces) do save_workspace(ws) end
  for queue, node in pairs(nodes) do
    if node.dirty then
      call('HSET', K.nodes(), queue, concat({ num(node.v), num(node.big), num(node.drained), num(node.pace) }, ' '))
    end
  end
  if meta then save_meta() end
end
