-- The arguments of one command that concerns several things.

-- One field of each, or two in turns. Most lists have one thing.
function Words.of(list, one, other)
  local n, first, words = #list, list[1], S.words
  if other then
    if n == 1 then return first[one], first[other] end
    for i = 1, n do
      local each = list[i]
      words[2 * i - 1], words[2 * i] = each[one], each[other]
    end
    return unpack(words, 1, 2 * n)
  end
  if n == 1 then return first[one] end
  for i = 1, n do words[i] = list[i][one] end
  return unpack(words, 1, n)
end
