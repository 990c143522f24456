package bandog.spring;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.CachePut;
import org.springframework.cache.annotation.Cacheable;

/** Where the values come from, and the cached methods. */
public class Source {
    private final Map<Object, Object> values = new ConcurrentHashMap<>();
    private final AtomicLong loads = new AtomicLong();

    /** Changes a value where it comes from. */
    public void set(Object key, Object value) {
        values.put(key, value);
    }

    /** The number of calls of {@link #find} that were not answered by a cache. */
    public long loads() {
        return loads.get();
    }

    @Cacheable(cacheResolver = "byArgument", key = "#p1")
    public Object find(String cache, Object key) {
        loads.incrementAndGet();
        return values.get(key);
    }

    @CachePut(cacheResolver = "byArgument", key = "#p1")
    public Object put(String cache, Object key, Object value) {
        return value;
    }

    @CacheEvict(cacheResolver = "byArgument", key = "#p1")
    public void evict(String cache, Object key) {}

    @CacheEvict(cacheResolver = "byArgument", allEntries = true)
    public void clear(String cache) {}
}
