-- COLD: what a limit provider has said. Nobody asks one any more: it counts no longer.
function Given.forget()
  for _, name in ipairs(call('ZRANGE', K.asked(), 0, -1)) do
    call('HDEL', K.limits(), 'given:workspace:' .. name)
  end
  call('DEL', K.asked())
end
