-- Frees a lease, no earlier than at its at-least-for. Its token stays.
-- KEYS: 1 the lease, see acquire.lua
-- ARGV: 1 nonce with its length, 2 what tells this release from all others and the name, each with its length
-- Reply: 1 if it was held, also when the request comes again, else 0
local found = redis.call('get', KEYS[1])
if not found or string.sub(found, 54, 53 + #ARGV[1]) ~= ARGV[1] then
  return 0
end
if string.sub(found, 52, 52) == '-' then
  return string.sub(found, 54 + #ARGV[1]) == ARGV[2] and 1 or 0
end
local keep = string.sub(found, 35, 50)
redis.call('set', KEYS[1], string.sub(found, 1, 17) .. keep .. ' ' .. keep .. ' - ' .. ARGV[1] .. ARGV[2], 'keepttl')
return 1
