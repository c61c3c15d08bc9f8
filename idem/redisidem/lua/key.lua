-- What each script begins with.
-- KEYS: 1 the index of open keys that a completer can do, 2 that of the other open keys, 3 the key, 4 the body of its answer; all in
--   one slot. A key is a hash:
--     state     0 free, 1 running, 2 completed, 3 failed, 5 unknown, 6 pending
--     nonce, epoch, attempts, scope, name, fp, codec, status, steps, input, note: as in the record of package idem
--     created   in µs since 1970, 16 digits
--     till      when an open key may be taken, when an answer is over, in µs since 1970
--     waiters   there if somebody waits
--     body      1 if the answer has one
--     request   that which made the key free or parked it
--   An index is a sorted set of "state created id name" by till.
-- ARGV: 1 the id
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local key, id = KEYS[3], ARGV[1]

-- Numbers are doubles here, and tostring rounds them to 14 digits.
local function text(number)
  return string.format('%.0f', number)
end

local function read(...)
  return unpack(redis.call('hmget', key, ...))
end

local fields = {
  'state', 'nonce', 'epoch', 'attempts', 'till', 'created', 'scope', 'name', 'fp', 'codec', 'status', 'note', 'steps', 'body', 'input',
}

-- Returns {the clock, fields of the key, body of its answer}.
local function tell()
  return {now, redis.call('hmget', key, unpack(fields)), redis.call('get', KEYS[4])}
end

-- Returns the index that an open key is in, and its member.
local function entry()
  local state, created, name = read('state', 'created', 'name')
  local index = redis.call('hexists', key, 'input') == 1 and KEYS[1] or KEYS[2]
  return index, state .. ' ' .. created .. ' ' .. id .. ' ' .. name
end

local function leave()
  redis.call('zrem', entry())
end

local function enter(till)
  local index, member = entry()
  redis.call('zadd', index, text(till), member)
end

-- Reports whether the key is running under a nonce and an epoch.
local function held(nonce, epoch)
  local state, its, at = read('state', 'nonce', 'epoch')
  return state == '1' and its == nonce and at == epoch
end

-- Wakes who waits. A user who may not publish does without: who waits looks again by himself.
local function wake(channel)
  if redis.call('hdel', key, 'waiters') == 1 then
    redis.pcall('publish', channel, id)
  end
end

-- Makes a key running for the first time. It had that epoch, or was not there.
local function begin(nonce, epoch, seen, lease, attributes)
  if epoch then -- a command that frees memory lets those after it pass when there is none, and a claim must not
    redis.call('del', key, KEYS[4])
  end
  redis.call('hset', key, 'state', '1', 'nonce', nonce, 'epoch', text(math.max(now, (epoch or 0) + 1, seen + 1)), 'attempts', '1',
    'till', text(now + lease), 'created', string.format('%016.0f', now), unpack(attributes))
  enter(now + lease)
end

