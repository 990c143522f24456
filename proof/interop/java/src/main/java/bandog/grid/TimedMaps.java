package bandog.grid;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.redisson.api.EvictionMode;
import org.redisson.api.RMapCache;
import org.redisson.api.map.event.EntryCreatedListener;
import org.redisson.api.map.event.EntryExpiredListener;
import org.redisson.api.map.event.EntryRemovedListener;
import org.redisson.api.map.event.EntryUpdatedListener;

/** The verbs of RMapCache, and those of RMap. */
final class TimedMaps {
    private final RMapCache<Object, Object> map;
    private final List<Object> events = new CopyOnWriteArrayList<>();
    private final List<Integer> listeners = new ArrayList<>();

    TimedMaps(RMapCache<Object, Object> map) {
        this.map = map;
    }

    String obey(String verb, String[] args) throws Exception {
        switch (verb) {
            case "put-for":
                return Words.of(map.put(Words.value(args[0]), Words.value(args[1]), Long.parseLong(args[2]),
                        TimeUnit.MILLISECONDS, Long.parseLong(args[3]), TimeUnit.MILLISECONDS));
            case "put-new-for":
                return Words.of(map.fastPutIfAbsent(Words.value(args[0]), Words.value(args[1]),
                        Long.parseLong(args[2]), TimeUnit.MILLISECONDS));
            case "left":
                return Words.of(map.remainTimeToLive(Words.value(args[0])));
            case "bound":
                map.setMaxSize(Integer.parseInt(args[0]), EvictionMode.valueOf(args[1]));
                return "bounded";
            case "size":
                return Words.of(map.size());
            case "listen":
                listeners.add(map.addListener((EntryCreatedListener<Object, Object>) event ->
                        events.add("+" + event.getKey() + "=" + event.getValue())));
                listeners.add(map.addListener((EntryUpdatedListener<Object, Object>) event ->
                        events.add("~" + event.getKey() + "=" + event.getOldValue() + ">" + event.getValue())));
                listeners.add(map.addListener((EntryRemovedListener<Object, Object>) event ->
                        // The value of such an event is null.
                        events.add("-" + event.getKey() + "=" + event.getOldValue())));
                listeners.add(map.addListener((EntryExpiredListener<Object, Object>) event ->
                        events.add("!" + event.getKey() + "=" + event.getValue())));
                return "listening";
            case "events":
                return Words.of(new ArrayList<>(events));
            case "leave":
                listeners.forEach(map::removeListener);
                map.destroy();
                return "left";
            default:
                return Maps.obey(map, verb, args);
        }
    }
}
