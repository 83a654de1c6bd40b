-- What a running job says about itself. It counts only while the job's lease lives.
--   progress: fence -> current total message time
--     total: or -; time: when this was reported
--   and !fence -> JSON of the job whose result it awaits in vain: see operate/blocked_waits.py
local LOOKED_AT = 3 -- reports of others, with each report

-- The lease with this fence, if it is of this workspace; nil: what its worker writes is refused.
function Running.lease(fence, name)
  local l = LeaseRecords.read(fence)
  return l and l.workspace == name and l or nil
end

function Running.note_progress(fence, text)
  call('HSET', K.progress(), fence, text .. ' ' .. now_text)
  for _, other in ipairs(call('HRANDFIELD', K.progress(), LOOKED_AT)) do
    Running.drop_if_over(other)
  end
end

function Running.drop_if_over(field)
  if call('HEXISTS', K.leases(), match(field, '[^!]*$')) == 1 then return end
  call('HDEL', K.progress(), field)
end

-- The reports of these jobs; false: none.
function Running.progress_of(fences)
  return call('HMGET', K.progress(), unpack(fences))
end
