package bandog.codecs;

/** A value inside another one. */
public class Address {
    String city;
    int zip;

    public Address() {}

    Address(String city, int zip) {
        this.city = city;
        this.zip = zip;
    }

    @Override
    public String toString() {
        return "Address(" + city + ", " + zip + ")";
    }
}
