-- The flows of a workspace that has many, of which a call reads only some, see Records.flow: these
-- functions read more of them, or all.

-- The first `most` of many flows for which this holds are read. Return the lane key of the
-- following one; nil: there is no other.
function Flows.read_some(ws, most, holds)
  local text, following = WorkspaceRecords.cut_some(ws.others, most, holds)
  if ws.others.left == 0 then ws.others = nil end
  Records.add_flows(ws, text, ws.flows)
  return following
end

-- The first `most` in the order of their lane keys, behind `from`, are read. Return the last of
-- them; nil: there are no others behind it.
function Flows.read_next(ws, most, from)
  local lane_keys = WorkspaceRecords.lane_keys(ws.others, from, most + 1)
  for i = 1, min(most, #lane_keys) do Records.read_flow(ws, lane_keys[i]) end
  return lane_keys[most + 1] and lane_keys[most]
end

-- All flows, to look at: what is changed must be read by Records.flow.
function Flows.all(ws)
  if not ws.others then return ws.flows end
  local all = { unpack(ws.flows) }
  Records.add_flows(ws, WorkspaceRecords.left(ws.others), all, true)
  return all
end

-- All flows are read.
function Flows.read_all(ws)
  if ws.others then ws.flows, ws.others = Flows.all(ws), nil end
end
