-- Takes a lease in turn, or a place among those who wait. Before it comes acquire.lua, as a function of the lease.
-- KEYS: 1 the lease, 2 who waits, by ticket, 3 the same, by the end of their places in µs since 1970
-- ARGV: 1 to 7 see acquire.lua, 8 the waiter, empty for one who takes no place, 9 how long a place lasts in µs
-- Reply: that of acquire.lua, and of a refusal how many are ahead
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
for _, gone in ipairs(redis.call('zrangebyscore', KEYS[3], '-inf', now)) do
  redis.call('zrem', KEYS[2], gone)
  redis.call('zrem', KEYS[3], gone)
end
local place = redis.call('zrank', KEYS[2], ARGV[8])
local ahead = place or redis.call('zcard', KEYS[2])
local found = redis.call('get', KEYS[1])
local reply
if ahead == 0 or found and string.sub(found, 54, 53 + #ARGV[1]) == ARGV[1] then
  reply = acquire({KEYS[1]})
elseif found then
  reply = {0, tonumber(string.sub(found, 1, 16)), string.sub(found, 52), string.sub(found, 18, 33) - now}
else
  reply = {0, 0, '', 0}
end
if reply[1] == 1 then
  redis.call('zrem', KEYS[2], ARGV[8])
  redis.call('zrem', KEYS[3], ARGV[8])
  return reply
end
if ARGV[8] ~= '' then
  if not place then
    local last = redis.call('zrange', KEYS[2], -1, -1, 'withscores')
    redis.call('zadd', KEYS[2], (last[2] or 0) + 1, ARGV[8])
  end
  local stop = place and redis.call('zscore', KEYS[3], ARGV[8])
  if not stop or stop - now < ARGV[9] / 2 then
    redis.call('zadd', KEYS[3], now + ARGV[9], ARGV[8])
    local last = redis.call('zrange', KEYS[3], -1, -1, 'withscores')
    local left = string.format('%.0f', math.ceil((last[2] - now) / 1000))
    redis.call('pexpire', KEYS[2], left)
    redis.call('pexpire', KEYS[3], left)
  end
end
reply[5] = ahead
return reply
