package bandog.codecs;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Values that every codec writes, with their labels. */
final class Samples {
    private Samples() {}

    /** Labels and values of scalars. A label is the name of the Java type and a literal. */
    static Map<String, Object> scalars() {
        Map<String, Object> all = new LinkedHashMap<>();
        strings().forEach((label, text) -> all.put("String " + label, text));
        int[] ints = {
            0, 1, -1, 5, 63, 64, -64, -65, 300, 8191, 8192, 1 << 20, 1 << 28, Integer.MAX_VALUE, Integer.MIN_VALUE,
        };
        for (int value : ints) {
            all.put("Integer " + value, value);
        }
        long[] longs = {
            0, 1, -1, 5, 300, 1L << 31, -1L << 31, 1L << 34, 1L << 35, 1L << 48, 1L << 55, 1L << 56, 1L << 62,
            (1L << 53) - 1, (1L << 53) + 1, Long.MAX_VALUE, Long.MIN_VALUE,
        };
        for (long value : longs) {
            all.put("Long " + value, value);
        }
        for (short value : new short[] {0, 1, -1, 300, Short.MAX_VALUE, Short.MIN_VALUE}) {
            all.put("Short " + value, value);
        }
        for (byte value : new byte[] {0, 7, -1, Byte.MAX_VALUE, Byte.MIN_VALUE}) {
            all.put("Byte " + value, value);
        }
        all.put("Boolean true", true);
        all.put("Boolean false", false);
        for (char value : new char[] {'A', '0', ' ', '"', '\u0000', '\u00e9', '\u4e2d', '\uffff'}) {
            all.put(String.format("Character %04x", (int) value), value);
        }
        double[] doubles = {
            0.0, -0.0, 1.0, 1.5, -2.25, 0.1, 0.03, 0.0003, 1e7, 1e10, 1e-5, 1e300, 9007199254740991.0, 9007199254740993.0,
            Double.MIN_VALUE, Double.MAX_VALUE, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY,
        };
        for (double value : doubles) {
            all.put(label(value), value);
        }
        all.put("Double fff8000000000001", Double.longBitsToDouble(0xfff8000000000001L));
        float[] floats = {
            0.0f, -0.0f, 1.0f, 1.5f, 0.1f, 16777216f, 1e10f, 1e-5f, Float.MIN_VALUE, Float.MAX_VALUE, Float.NaN,
            Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY,
        };
        for (float value : floats) {
            all.put(label(value), value);
        }
        all.put("null", null);
        return all;
    }

    /** The scalars without long strings. */
    static Map<String, Object> shortScalars() {
        Map<String, Object> all = scalars();
        all.keySet().removeIf(label -> label.contains(" x "));
        return all;
    }

    static String label(double value) {
        return String.format("Double %016x", Double.doubleToRawLongBits(value));
    }

    static String label(float value) {
        return String.format("Float %08x", Float.floatToRawIntBits(value));
    }

    static Map<String, String> strings() {
        Map<String, String> all = new LinkedHashMap<>();
        String[] texts = {
            "", "a", "ab", "abc", "true", "5", "hello world", "key1", "\u00e9", "a\u00e9", "\u00e9a", "\u4e2d\u6587",
            "\ud83d\ude00", "a\ud83d\ude00b", "\u0000", "a\u0000", "\u0000a", "\u007f", "\u0080", "\u07ff", "\u0800",
            "\ue000\uffff", "\u0001\u001f", "\b\f\n\r\t", "\"\\/", "\u2028\u2029", "</script>",
        };
        for (String text : texts) {
            all.put(Golden.quoted(text), text);
        }
        for (String unit : List.of("a", "\u00e9", "\u4e2d")) {
            for (int count : new int[] {31, 32, 33, 62, 63, 64, 65, 130}) {
                all.put(Golden.quoted(unit) + " x " + count, unit.repeat(count));
            }
        }
        for (int count : new int[] {8190, 8191, 8192, 9000}) {
            all.put("\"a\" x " + count, "a".repeat(count));
        }
        return all;
    }

    /** Doubles: awkward ones, 100 with random bits, and 50 with few decimals. */
    static List<Double> doubles() {
        List<Double> all = new ArrayList<>();
        String texts = """
                0.0 -0.0 1.0 -1.0 0.1 0.2 0.3 0.5 1.5 -2.25 100.0 123.456 1000000.0 9999999.0 9999999.999999998 1e7
                12345678.9 1e10 1e15 1e16 1e17 1e21 1e22 1e23 2e23 9e23 1e100 1e300 -1e300 0.001 9.99999e-4 1e-4 1e-5
                1.5e-5 1e-7 1.25e-10 1e-300 4.35 0.03 3e-4 3.141592653589793 2.718281828459045 0.3333333333333333
                9007199254740991 9007199254740992 9007199254740994 1.7976931348623157E308 2.2250738585072014E-308
                2.225073858507201E-308 4.9E-324 2.0E-3 8.41E21 2.0E-322""";
        for (String text : texts.split("\\s+")) {
            all.add(Double.parseDouble(text));
        }
        for (int ulps = 1; ulps <= 12; ulps++) {
            all.add(ulps * Double.MIN_VALUE);
        }
        all.add(Double.NaN);
        all.add(Double.POSITIVE_INFINITY);
        all.add(Double.NEGATIVE_INFINITY);
        SplitMix random = new SplitMix(1);
        for (int drawn = 0; drawn < 100; ) {
            double value = Double.longBitsToDouble(random.next());
            if (Double.isFinite(value)) {
                all.add(value);
                drawn++;
            }
        }
        for (int drawn = 0; drawn < 50; drawn++) {
            all.add((random.next() >> 40) / 100.0);
        }
        return all;
    }

    static List<Float> floats() {
        List<Float> all = new ArrayList<>();
        String texts = """
                0 -0 1 0.1 0.3 1.5 -2.25 16777216 9999999 1e7 1e10 0.001 9.999e-4 1e-5 3.4028235E38 1.17549435E-38
                1.4E-45 2.8E-45 4.2E-45 3.3554432E7 1.1E-5""";
        for (String text : texts.split("\\s+")) {
            all.add(Float.parseFloat(text));
        }
        all.add(Float.NaN);
        all.add(Float.NEGATIVE_INFINITY);
        SplitMix random = new SplitMix(2);
        for (int drawn = 0; drawn < 50; ) {
            float value = Float.intBitsToFloat((int) random.next());
            if (Float.isFinite(value)) {
                all.add(value);
                drawn++;
            }
        }
        return all;
    }

    /** A generator of random numbers that does not depend on the version of Java. */
    static final class SplitMix {
        private long state;

        SplitMix(long seed) {
            state = seed;
        }

        long next() {
            state += 0x9e3779b97f4a7c15L;
            long mixed = (state ^ (state >>> 30)) * 0xbf58476d1ce4e5b9L;
            mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
            return mixed ^ (mixed >>> 31);
        }
    }
}
