-- What a running job says about itself. It counts only while the job's lease lives.
--   progress: fence -> current total message time
--     total: or -; time: when this was reported
local LOOKED_AT = 3 -- reports of others, with each report

-- The lease with this fence, if it is of this workspace; nil: what its worker writes is refused.
function Running.lease(fence, name)
  local l = LeaseRecords.read(fence)
  return l and l.workspace == name and l or nil
end

function Running.note_progress(fence, text)
  call('HSET', K.progress(), fence, text .. ' ' .. now_text)
  for _, other in ipairs(call('HRANDFIELD', K.progress(), LOOKED_AT)) do
    if call('HEXISTS', K.leases(), other) == 0 then call('HDEL', K.progress(), other) end
  end
end

-- The reports of these jobs; false: none.
function Running.progress_of(fences)
  return call('HMGET', K.progress(), unpack(fences))
end
