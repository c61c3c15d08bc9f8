-- Takes a key that is free, or tells of one that is not.
-- KEYS: see key.lua
-- ARGV: 1 the id, 2 nonce, 3 lease in µs, 4 the highest epoch that the client has seen, then names and values of what else is stored
-- Reply: see tell in key.lua. The state is 0 if the nonce is that of who has made the key free: a request that was overtaken by its
--   own repetition, or by its release
local state, nonce, epoch = read('state', 'nonce', 'epoch')
if not state or state == '0' and nonce ~= ARGV[2] then
  begin(ARGV[2], epoch, ARGV[4], ARGV[3], {unpack(ARGV, 5)})
end
return tell()
