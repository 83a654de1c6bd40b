-- The arguments of one command that concerns several things.

-- One field of each. Most lists have one thing.
function Arguments.of(list, one)
  local n, words = #list, S.words
  if n == 1 then return list[1][one] end
  for i = 1, n do words[i] = list[i][one] end
  return unpack(words, 1, n)
end

-- A command with one field of each, for each key that another field names.
function Arguments.for_each(command, key_of, list, other, one)
  if #list == 1 then return call(command, key_of(list[1][other]), list[1][one]) end
  local found = {}
  for i = 1, #list do
    local each = list[i]
    local words = found[each[other]]
    if words then words[#words + 1] = each[one] else found[each[other]] = { each[one], nil } end
  end
  for name, words in pairs(found) do call(command, key_of(name), unpack(words)) end
end
