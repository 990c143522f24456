package bandog.codecs;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Values of JSON that are not scalars. */
final class Jsons {
    private Jsons() {}

    static Map<String, Object> objects() {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("user empty", new User());
        User user = new User();
        user.name = "Ann \"A\" \u00e9 \ud83d\ude00";
        user.age = 7;
        user.id = 5;
        user.owner = 6L;
        user.score = 1e10;
        user.ratio = 0.1f;
        user.active = true;
        user.level = 3;
        user.tags = new ArrayList<>(List.of("b", "a"));
        user.visits = new ArrayList<>(List.of(1L, 1L << 40));
        user.counts = new HashMap<>(Map.of("x", 1));
        user.address = new Address("Ulm", 89073);
        user.former = new ArrayList<>(List.of(new Address(null, 0)));
        user.colour = Colour.DARK_BLUE;
        user.photo = new byte[] {1, 2, (byte) 0xff};
        user.digits = new int[] {1, 2};
        user.words = new String[] {"v", "w"};
        user.Zeta = "upper";
        user.éclair = "accent";
        all.put("user full", user);
        all.put("odd", new Odd());
        all.put("colour", Colour.RED);
        all.put("list of strings", new ArrayList<>(List.of("a", "b")));
        all.put("list of integers", new ArrayList<>(List.of(1, 2)));
        all.put("list of longs", new ArrayList<>(List.of(1L, 2L)));
        all.put("list of doubles", new ArrayList<>(List.of(1.0, 1e10)));
        all.put("list of lists", new ArrayList<>(List.of(new ArrayList<>(List.of(1)), new ArrayList<>())));
        all.put("list of objects", new ArrayList<>(List.of(new Address("Ulm", 1), new Address(null, 2))));
        all.put("list with null", new ArrayList<>(Arrays.asList(1, null)));
        all.put("list empty", new ArrayList<>());
        Map<String, Object> map = new HashMap<>();
        map.put("a", null);
        map.put("b", 1);
        all.put("map with null", map);
        all.put("map empty", new HashMap<>());
        all.put("map of longs", new HashMap<>(Map.of("k", 5L)));
        all.put("map of objects", new HashMap<>(Map.of("k", new Address("Ulm", 1))));
        Map<Object, Integer> keys = new LinkedHashMap<>();
        keys.put(-5, 1);
        keys.put(1L << 40, 2);
        keys.put(1.5, 3);
        keys.put(1e10, 4);
        keys.put(true, 5);
        keys.put('c', 6);
        keys.put(Colour.RED, 7);
        all.put("linked map of keys", keys);
        Map<String, Integer> tree = new TreeMap<>();
        for (String key : List.of("b", "a", "\uff01", "\ud83d\ude00", "Z", "")) {
            tree.put(key, 1);
        }
        all.put("tree map", tree);
        all.put("bytes", new byte[] {0, 1, 2, (byte) 0xff});
        all.put("bytes empty", new byte[] {});
        all.put("bytes of 100", new byte[100]);
        all.put("ints", new int[] {1, -1});
        all.put("longs", new long[] {1, -1});
        all.put("doubles", new double[] {1, Double.NaN});
        all.put("strings", new String[] {"a", "b"});
        all.put("big integer", new java.math.BigInteger("18446744073709551615"));
        all.put("big decimal", new java.math.BigDecimal("1.50"));
        all.put("uuid", java.util.UUID.fromString("00000000-0000-8000-8000-000000000001"));
        all.put("date", new java.util.Date(1790000000000L));
        all.put("atomic", new java.util.concurrent.atomic.AtomicLong(5));
        all.put("set", new java.util.HashSet<>(List.of("a")));
        return all;
    }
}
