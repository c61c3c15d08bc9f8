-- Tells which keys are open.
-- KEYS: see key.lua; without 3 and 4
-- ARGV: 1 the states that are asked for, 2 the name, or '', 3 the lowest "created id" that is too low, 4 how old they are at least in µs,
--   5 how many at most
-- Reply: "created id" of the lowest
local found, oldest = {}, string.format('%016.0f', now - ARGV[4])
for i = 1, 2 do
  local from, page = 0, 1000
  repeat
    local list = redis.call('zrange', KEYS[i], from, from + page - 1)
    for _, member in ipairs(list) do
      local at = string.sub(member, 3, 83)
      if string.find(ARGV[1], string.sub(member, 1, 1), 1, true) and (ARGV[2] == '' or ARGV[2] == string.sub(member, 85)) and
        at > ARGV[3] and string.sub(at, 1, 16) <= oldest then
        found[#found + 1] = at
      end
    end
    from = from + page
  until #list < page
end
table.sort(found)
return {unpack(found, 1, math.min(#found, ARGV[5]))}
