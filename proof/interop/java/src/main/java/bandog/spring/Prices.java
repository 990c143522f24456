package bandog.spring;

/** The commands. A value is a word whose first letter is its type. */
final class Prices {
    private final Source source;

    Prices(Source source) {
        this.source = source;
    }

    String obey(String cache, String verb, String[] args) {
        switch (verb) {
            case "find":
                return word(source.find(cache, value(args[0])));
            case "put":
                return word(source.put(cache, value(args[0]), value(args[1])));
            case "evict":
                source.evict(cache, value(args[0]));
                return "evicted";
            case "clear":
                source.clear(cache);
                return "cleared";
            case "source":
                source.set(value(args[0]), value(args[1]));
                return "set";
            case "loads":
                return String.valueOf(source.loads());
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private static Object value(String word) {
        String text = word.substring(1);
        switch (word.charAt(0)) {
            case 's':
                return text;
            case 'l':
                return Long.valueOf(text);
            case 'd':
                return Double.valueOf(text);
            case 'n':
                return null;
            default:
                throw new IllegalArgumentException(word);
        }
    }

    private static String word(Object value) {
        return value == null ? "null" : Character.toLowerCase(value.getClass().getSimpleName().charAt(0)) + "" + value;
    }
}
