package bandog.codecs;

import com.fasterxml.jackson.annotation.JsonProperty;

/** Names of properties whose order and escapes are not obvious. */
public class Odd {
    @JsonProperty("\uFB01")
    int ligature = 1;

    @JsonProperty("\uD83D\uDE00")
    int face = 2;

    @JsonProperty("b\"c")
    int quote = 3;

    @JsonProperty("b c")
    int blank = 4;

    @JsonProperty("B")
    int upper = 5;

    @JsonProperty("")
    int empty = 6;

    @JsonProperty("b\u0001")
    int control = 7;

    @JsonProperty("b")
    int lower = 8;

    @JsonProperty("\u00e9")
    int accent = 9;
}
