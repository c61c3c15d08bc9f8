-- Makes a key free. Its epoch stays for a while.
-- KEYS: see key.lua
-- ARGV: 1 the id, 2 nonce, 3 epoch, or '0' for a claim whose reply was lost, 4 what tells this request from all others, 5 how long the
--   epoch stays in ms, 6 the channel
-- Reply: 1, also when the request comes again, or 0 if it is not the execution of the key any more
local state, nonce, epoch, request = read('state', 'nonce', 'epoch', 'request')
local running = state == '1' and nonce == ARGV[2] and (ARGV[3] == '0' or ARGV[3] == epoch)
local ahead = ARGV[3] == '0' and (not state or state == '0') -- of the claim, which is to find that it is over
if running then
  leave()
  wake(ARGV[6])
end
if running or ahead then
  redis.call('del', key)
  redis.call('hset', key, 'state', '0', 'nonce', ARGV[2], 'epoch', epoch or '0', 'request', ARGV[4])
  redis.call('pexpire', key, ARGV[5])
end
return (running or state == '0' and request == ARGV[4]) and 1 or 0
