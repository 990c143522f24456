package bandog.grid;

import org.redisson.api.RLocalCachedMap;

/** The verbs of RLocalCachedMap, and those of RMap. */
final class LocalMaps {
    private LocalMaps() {}

    static String obey(RLocalCachedMap<Object, Object> map, String verb, String[] args) throws Exception {
        switch (verb) {
            case "copy":
                return Words.of(map.getCachedMap().get(Words.value(args[0])));
            case "fast-put":
                return Words.of(map.fastPut(Words.value(args[0]), Words.value(args[1])));
            case "clear-copies":
                map.clearLocalCache();
                return "cleared";
            case "leave":
                map.destroy();
                return "left";
            default:
                return Maps.obey(map, verb, args);
        }
    }
}
