-- Note how far a running job is, as long as its lease lives.
-- ARGV now fence workspace progress
-- ROUTE fence
-- RETURNS 1; 0: its lease is lost
-- progress: "current total message", see state/running.lua
local _, fence, name, progress = unpack(ARGV)

if not Running.lease(fence, name) then return 0 end
Running.note_progress(fence, progress)
return 1
