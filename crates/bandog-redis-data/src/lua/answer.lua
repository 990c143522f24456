-- Adds a permit to the semaphore of a program of Java that has asked all others to drop their copies.
--
-- KEYS[1] the semaphore
-- ARGV[1] its channel
local permits = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], 60000)
redis.pcall('publish', ARGV[1], permits)
return permits
