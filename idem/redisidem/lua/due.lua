-- Tells which open keys are due, those first that have been for longest.
-- KEYS: see key.lua; without 3 and 4
-- ARGV: 1 how many at most, 2 the states that are asked for, then the names
-- Reply: members of the index and since when they are due, by turns
local names = {}
for i = 3, #ARGV do
  names[ARGV[i]] = true
end
local found, from, page = {}, 0, 100
repeat
  local list = redis.call('zrangebyscore', KEYS[1], '-inf', text(now), 'withscores', 'limit', from, page)
  for i = 1, #list, 2 do
    local member = list[i]
    if #found < 2 * ARGV[1] and names[string.sub(member, 85)] and string.find(ARGV[2], string.sub(member, 1, 1), 1, true) then
      found[#found + 1] = member
      found[#found + 1] = list[i + 1]
    end
  end
  from = from + page
until #list < 2 * page or #found >= 2 * ARGV[1]
return found
