package bandog.codecs;

/** An enum without bodies, so its class is final. */
public enum Colour {
    RED,
    DARK_BLUE
}
