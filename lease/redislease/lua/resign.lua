-- Asks the holder of a lease to let go.
-- KEYS: 1 the lease, see acquire.lua
-- Reply: the lease, or nothing if nobody holds it
local found = redis.call('get', KEYS[1])
local state = found and string.sub(found, 52, 52)
if state ~= '+' and state ~= '!' then
  return false
end
redis.call('setrange', KEYS[1], 51, '!')
return redis.call('get', KEYS[1])
