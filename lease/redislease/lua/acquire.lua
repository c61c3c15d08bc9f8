-- Takes the first of some leases that nobody holds.
-- KEYS: the leases, each "token end keep state nonce holder meta name", the first three of 16 digits, times in µs since 1970
-- ARGV: 1 nonce with its length, 2 TTL in µs, 3 at-least-for in µs, 4 the highest token that the client has seen, 5 life of the key
--   in ms, 6 holder and meta with their lengths, and then of each lease its name with its length
-- Reply: {1, token, number of the lease}, or of the one that runs out first {0, token, "state nonce holder meta name", µs that are left}
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local free, last, refused, overtaken
for i, key in ipairs(KEYS) do
  local found = redis.call('get', key)
  if found then
    local token, left = tonumber(string.sub(found, 1, 16)), string.sub(found, 18, 33) - now
    -- The same nonce is a request that came twice. Who has released the lease does not ask for it any more: that is one which was
    -- overtaken by its own repetition.
    local mine = string.sub(found, 54, 53 + #ARGV[1]) == ARGV[1]
    if mine and string.sub(found, 52, 52) ~= '-' then
      return {1, token, i}
    end
    if mine or left > 0 then
      overtaken = overtaken or mine
      if not refused or left < refused[4] then
        refused = {0, token, string.sub(found, 52), left}
      end
    elseif not free then
      free, last = i, token
    end
  elseif not free then
    free, last = i, 0
  end
end
if overtaken or not free then
  return refused
end
local token = math.max(now, last + 1, ARGV[4] + 1)
-- %.0f, since numbers are doubles here, and tostring rounds them to 14 digits.
redis.call('set', KEYS[free], string.format('%016.0f %016.0f %016.0f + ', token, now + math.max(ARGV[2], ARGV[3]), now + ARGV[3]) ..
  ARGV[1] .. ARGV[6] .. ARGV[6 + free], 'px', ARGV[5])
return {1, token, free}
