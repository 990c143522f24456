package bandog.codecs;

import java.util.List;
import java.util.Map;

/** A value with fields of each type. The order of the fields is not that of the alphabet. */
public class User {
    String name;
    int age;
    long id;
    Long owner;
    Double score;
    float ratio;
    boolean active;
    Integer level;
    List<String> tags;
    List<Long> visits;
    Map<String, Integer> counts;
    Address address;
    List<Address> former;
    Colour colour;
    byte[] photo;
    int[] digits;
    String[] words;
    String Zeta;
    String éclair;

    public User() {}

    @Override
    public String toString() {
        return "User("
                + String.join(
                        ", ",
                        "name=" + name,
                        "age=" + age,
                        "id=" + id,
                        "owner=" + owner,
                        "score=" + score,
                        "tags=" + tags,
                        "visits=" + visits,
                        "counts=" + counts,
                        "address=" + address,
                        "former=" + former,
                        "colour=" + colour)
                + ")";
    }
}
