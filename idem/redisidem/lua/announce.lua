-- Notes that somebody waits for the answer of a key.
-- KEYS: see key.lua
-- ARGV: 1 the id
-- Reply: 1, or 0 if the key is not open
local state = read('state')
if state ~= '1' and state ~= '5' and state ~= '6' then
  return 0
end
redis.call('hset', key, 'waiters', '1')
return 1
