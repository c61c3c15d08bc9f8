-- Takes a lease from its holder, also one that is kept for its at-least-for. Its token stays, and who asks next has a higher one.
-- KEYS: 1 the lease, see acquire.lua
-- ARGV: 1 what tells this eviction from all others and the name, each with its length
-- Reply: the lease as it was, also when the request comes again, or nothing if it is free
local found = redis.call('get', KEYS[1])
if not found then
  return false
end
local length = string.match(found, '^%d+:', 54)
local nonce = string.sub(found, 54, 54 + #length + string.sub(length, 1, -2))
local said = 54 + #nonce
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
if string.sub(found, 52, 52) == '-' then
  if string.sub(found, said, said + #ARGV[1] - 1) == ARGV[1] then
    return string.sub(found, said + #ARGV[1])
  end
  if string.sub(found, 18, 33) - now <= 0 then
    return false
  end
end
local over = string.format('%016.0f ', now)
redis.call('set', KEYS[1], string.sub(found, 1, 17) .. over .. over .. '- ' .. nonce .. ARGV[1] .. found, 'keepttl')
return found
