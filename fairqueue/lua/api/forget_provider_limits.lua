-- Forget a page of what a limit provider said: no process has one any more.
-- ARGV now count
-- ROUTE all MERGE sum
-- RETURNS how many workspaces were forgotten
local _, count = unpack(ARGV)

if call('HEXISTS', K.limits(), 'configured:provider:') == 1 then return 0 end
local names = call('ZRANGE', K.asked(), 0, count - 1)
for _, name in ipairs(names) do Limits.forget_answer(name) end -- before any limits are read
for _, name in ipairs(names) do
  Settle.workspace(Records.workspace(name))
  Settle.group_changed(name)
end
return #names
