-- Lets leases run on, each if it is still the term's, to the end of its at-least-for at least. One that has run out, and that nobody has taken since, is.
-- KEYS: the leases, see acquire.lua
-- ARGV: for each lease its token of 16 digits, its nonce with its length, its TTL in µs, and how long its key outlives it in ms
-- Reply: for each lease 1, 2 if its holder is asked to resign, or 0 if it was lost
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local became = {}
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 4
  local token, nonce = ARGV[at + 1], ARGV[at + 2]
  local found = redis.call('get', key)
  became[i] = 0
  if found and string.sub(found, 1, 16) == token and string.sub(found, 54, 53 + #nonce) == nonce then
    local state = string.sub(found, 52, 52)
    if state ~= '-' then
      local stop = math.max(now + ARGV[at + 3], string.sub(found, 35, 50))
      redis.call('set', key, token .. string.format(' %016.0f', stop) .. string.sub(found, 34), 'px',
        string.format('%.0f', math.ceil((stop - now) / 1000) + ARGV[at + 4]))
      became[i] = state == '!' and 2 or 1
    end
  end
end
return became
