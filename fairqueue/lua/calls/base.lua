-- The beginning of the library: short names, the state of one call, the time and the shard's
-- record. A server fetches nothing from its own tables while it loads a library, so a call does.
local call, format, match, gmatch, find, sub, concat, insert, max, min
-- Of one call: its arguments, and P, with which its keys begin; the time in seconds since 1970, by
-- a clock of the shard that does not go back, and as text, since formatting a number costs as much
-- as a command; the shard's record as it was read, see shard.lua; and S, what modules keep until
-- the call ends.
local ARGV, now, now_text, meta_text, meta_unread, last_window, offset, ahead, S
local begin_call
-- Keys that a newer release wrote are refused; a record of the shard that cannot be read starts
-- again, since fences are above the time.
local FORMAT, META = '2', '<dddddddd' -- see shard.lua
local PACKED = 8 * (#META - 1) -- bytes of its numbers
local LAST_TIME = 100000000000 -- in seconds, as in the year 5138
local TAKEN_BACK = 0.05 -- of the time that passes, while it is ahead of Redis's clock
local NUMBERS_END = 9007199254740992 -- above every fence, tag and number of a call
local FORMAT_END = ' format=' .. FORMAT
local NO_META = ('\0'):rep(PACKED) .. '- - -' .. FORMAT_END

-- What S has when a call begins: more than 16 names, so that it does not grow, which costs more.
local function new_state()
  return {
    meta = false,
    slots_freed = 0, total_limit = 0, -- of the total, when one was freed
    look_again_at = 1 / 0, -- when this claimer must come back for what it has left over
    at_work = false, -- the lease, timer or flow at which the call works, in case it fails
    added_job = false, -- the id of the job that it stored last, for the same reason
    has_read = false, -- whether what few calls need was made, so that there may be more to write
    -- how much has been done besides the call's own n
    steps_taken = 0, looks_taken = 0,
    steps_kept = 0, -- while a tick runs: Shard.STEPS_KEPT
    -- what was worked out, and is needed again
    settings = false, this_window = false, gaps = false, retention = false, page_left = false,
    leaves_notices = false, -- whether a worker is to report the end of each
    fields = false, -- of the shard's hash: those that were read when the call began
  }
end
-- What calls need that change more than a lane: made together, when one of them is first needed, at
-- the size that most have.
local function add_records(state)
  state.has_read = true
  -- what was read, and is written at the end
  state.workspaces = {}
  state.nodes = {}
  state.shared_limits = {}
  state.changed_fields = { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil } -- field, text, ...
  state.touched_queues = {} -- whose token must be checked
  state.due_queues = {} -- when time will bring something to a queue
  state.set_aside = {} -- {kind, name, text} of what could not be read, or was not found
  -- what has been done, for a call that fails: see commit.lua
  state.taken_jobs = { nil } -- {workspace, queue, priority, element}
  state.touched_leases = { nil, nil } -- granted or dropped
  state.granted = { nil } -- leases that are still to be written
  state.words = { nil, nil, nil, nil } -- one table for all commands, since another each costs more
  state.averages = {}
end
-- What few calls need, each made when it is first needed: S has place for 32 names, and one more
-- would double it.
local TABLE = 'table'
local STATE = {
  stored_by = '', -- the process that stores limits; none for those of a provider
  flow_of_many = false,
  limits_of = TABLE, limits_by_text = TABLE, room_of_workspace = TABLE,
  indexed_tasks = TABLE, notes_of = TABLE,
  handover_lists = TABLE, -- {least priority, list}, the least first
}
local NOTHING = {}
local NEW_STATE = { __index = function(state, name)
  local first = STATE[name]
  if first == TABLE then state[name] = {}
  elseif first == nil then add_records(state)
  else return first end
  return state[name]
end }

-- The numbers of a packed record; nil: it cannot be read, or is not there.
local function unpacked(form, text)
  if text and #text >= 8 * (#form - 1) then return struct.unpack(form, text) end
end

local function num(number)
  return format('%.17g', number)
end

-- Most small numbers are counts.
local INTS = { '1', '2', '3', '4', '5', '6', '7', '8', '9', '10', [0] = '0' }
local function int(number)
  return INTS[number] or format('%d', number)
end

function begin_call(keys, arguments)
  if not call then
    call, format, match = redis.call, string.format, string.match
    gmatch, find, sub = string.gmatch, string.find, string.sub
    concat, insert, max, min = table.concat, table.insert, math.max, math.min
  end
  ARGV, P = arguments, keys[2]
  now_text = arguments[1]
  if now_text ~= '' then
    now = tonumber(now_text)
  else
    local t = call('TIME')
    now_text = t[1] .. '.' .. (#t[2] == 6 and t[2] or ('000000' .. t[2]):sub(-6))
    now = (t[1] * 1000000 + t[2]) / 1000000 -- the same, and cheaper to read
  end
end

-- Make the state of the call, read the shard's record with other fields of its hash, and let the
-- time go on from its last beat: what Redis's clock falls behind that is added to it. The time is
-- slower then, until it is Redis's again. Return the refusal of another release's keys.
local function open_shard(...)
  local found, one, other = call('HMGET', K.shard(), 'record', 'settings', ...), ...
  S = setmetatable(new_state(), NEW_STATE)
  S.fields = { [one or ''] = found[3], [other or ''] = found[4], settings = found[2] }
  meta_text, meta_unread = found[1] or NO_META, nil
  if #meta_text < #NO_META or sub(meta_text, -#FORMAT_END) ~= FORMAT_END then
    local written = match(meta_text, ' format=(%d+)$')
    if written and written ~= FORMAT then return { err = 'FORMAT ' .. written .. ' ' .. FORMAT } end
    meta_text, meta_unread = NO_META, meta_text
  end
  local beat
  beat, offset, last_window = struct.unpack('<ddd', meta_text)
  if not (beat + offset + last_window < LAST_TIME) then -- damaged; also what is no number
    meta_text, meta_unread, beat, offset, last_window = NO_META, meta_text, 0, 0, 0
  end
  if beat - now > offset then offset = beat - now end
  if offset > 0 then
    local passed = beat > 0 and now + offset - beat or 0
    ahead = max(0, offset - passed * TAKEN_BACK)
    now = now + ahead
    now_text = num(now)
  else
    offset, ahead = 0, 0 -- where it was damaged
  end
end
