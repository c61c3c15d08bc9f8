-- Looks at a lease.
-- KEYS: 1 the lease, see acquire.lua
-- Reply: the lease, or nothing if it is free or has run out
local found = redis.call('get', KEYS[1])
local time = redis.call('time')
if not found or string.sub(found, 18, 33) - (time[1] * 1000000 + time[2]) <= 0 then
  return false
end
return found
